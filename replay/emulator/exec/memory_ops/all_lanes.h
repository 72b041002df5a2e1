// Loads and stores of a wave with all lanes active and every address known to be legal: vectors of lanes instead of one
// lane at a time. The results are those of load_lane and store_lane for each lane in order.
#pragma once

#include <immintrin.h>

#include "exec/memory_ops/data.h"

namespace asmevo::emulator {

/// Whether lane l's address is lane 0's plus l * size.
inline bool is_contiguous(const uint64_t address[kLanes], uint32_t size) {
    uint64_t difference = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        difference |= address[lane] ^ (address[0] + static_cast<uint64_t>(lane) * size);
    }
    return difference == 0;
}

namespace detail {

inline __m128i* lanes_from(Wave& wave, uint32_t index, int lane) {
    return reinterpret_cast<__m128i*>(wave.lanes(static_cast<uint16_t>(index)) + lane);
}

/// Four rows of four dwords become four columns.
inline void transpose(__m128i row[4]) {
    const __m128i a = _mm_unpacklo_epi32(row[0], row[1]), b = _mm_unpacklo_epi32(row[2], row[3]);
    const __m128i c = _mm_unpackhi_epi32(row[0], row[1]), d = _mm_unpackhi_epi32(row[2], row[3]);
    row[0] = _mm_unpacklo_epi64(a, b);
    row[1] = _mm_unpackhi_epi64(a, b);
    row[2] = _mm_unpacklo_epi64(c, d);
    row[3] = _mm_unpackhi_epi64(c, d);
}

inline void load_b128(Wave& wave, uint16_t index, const uint64_t address[kLanes]) {
    for (int lane = 0; lane < kLanes; lane += 4) {
        __m128i row[4];
        for (int i = 0; i < 4; ++i) {
            row[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(address[lane + i]));
        }
        transpose(row);
        for (uint32_t i = 0; i < 4; ++i) {
            _mm_storeu_si128(lanes_from(wave, index + i, lane), row[i]);
        }
    }
}

inline void store_b128(Wave& wave, uint16_t index, const uint64_t address[kLanes]) {
    for (int lane = 0; lane < kLanes; lane += 4) {
        __m128i row[4];
        for (uint32_t i = 0; i < 4; ++i) {
            row[i] = _mm_loadu_si128(lanes_from(wave, index + i, lane));
        }
        transpose(row);
        for (int i = 0; i < 4; ++i) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(address[lane + i]), row[i]);
        }
    }
}

inline void load_b64(Wave& wave, uint16_t index, const uint64_t address[kLanes]) {
    for (int lane = 0; lane < kLanes; lane += 4) {
        __m128i row[4];
        for (int i = 0; i < 4; ++i) {
            row[i] = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(address[lane + i]));
        }
        const __m128i a = _mm_unpacklo_epi32(row[0], row[1]), b = _mm_unpacklo_epi32(row[2], row[3]);
        _mm_storeu_si128(lanes_from(wave, index, lane), _mm_unpacklo_epi64(a, b));
        _mm_storeu_si128(lanes_from(wave, index + 1u, lane), _mm_unpackhi_epi64(a, b));
    }
}

inline void store_b64(Wave& wave, uint16_t index, const uint64_t address[kLanes]) {
    for (int lane = 0; lane < kLanes; lane += 4) {
        const __m128i low = _mm_loadu_si128(lanes_from(wave, index, lane));
        const __m128i high = _mm_loadu_si128(lanes_from(wave, index + 1u, lane));
        const __m128i first = _mm_unpacklo_epi32(low, high), second = _mm_unpackhi_epi32(low, high);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(address[lane]), first);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(address[lane + 1]), _mm_srli_si128(first, 8));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(address[lane + 2]), second);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(address[lane + 3]), _mm_srli_si128(second, 8));
    }
}

}  // namespace detail

/// load_lane for all lanes.
template <Data D>
inline void load_all_lanes(Wave& wave, uint16_t index, const uint64_t address[kLanes]) {
    if constexpr (D == Data::kB128) {
        detail::load_b128(wave, index, address);
    } else if constexpr (D == Data::kB64) {
        detail::load_b64(wave, index, address);
    } else {
        constexpr bool kIsWord = D == Data::kB32 || D == Data::kU16 || D == Data::kU8;
        if (kIsWord && is_contiguous(address, size_bytes(D))) {
            const auto* from = reinterpret_cast<const uint8_t*>(address[0]);
            uint32_t* to = wave.lanes(index);
            if constexpr (D == Data::kB32) {
                std::memcpy(to, from, sizeof(LaneArray));
            } else {
                for (int lane = 0; lane < kLanes; ++lane) {
                    to[lane] = widen<D>(from + static_cast<uint32_t>(lane) * size_bytes(D));
                }
            }
            return;
        }
        for (int lane = 0; lane < kLanes; ++lane) {
            load_lane<D>(wave, index, lane, reinterpret_cast<const uint8_t*>(address[lane]));
        }
    }
}

/// store_lane for all lanes.
template <Data D>
inline void store_all_lanes(Wave& wave, uint16_t index, const uint64_t address[kLanes]) {
    if constexpr (D == Data::kB128) {
        detail::store_b128(wave, index, address);
    } else if constexpr (D == Data::kB64) {
        detail::store_b64(wave, index, address);
    } else {
        if (D == Data::kB32 && is_contiguous(address, 4)) {
            std::memcpy(reinterpret_cast<uint8_t*>(address[0]), wave.lanes(index), sizeof(LaneArray));
            return;
        }
        for (int lane = 0; lane < kLanes; ++lane) {
            store_lane<D>(wave, index, lane, reinterpret_cast<uint8_t*>(address[lane]));
        }
    }
}

}  // namespace asmevo::emulator
