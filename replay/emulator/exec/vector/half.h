// Conversions between IEEE half precision and single precision, a vector of lanes at a time.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "exec/vector/width.h"
#include "exec/wave.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

/// Low halves of 64 dwords, taken as f16, to the bits of f32 (exact; signalling NaN becomes quiet).
inline void widen_f16(const uint32_t* lanes, uint32_t* out) {
#ifdef __AVX512F__
    for (int i = 0; i < kLanes; i += 16) {
        const __m256i halves = _mm512_cvtepi32_epi16(_mm512_loadu_si512(lanes + i));
        _mm512_storeu_ps(out + i, _mm512_cvtph_ps(halves));
    }
#else
    const __m256i low = _mm256_set1_epi32(0xffff);
    for (int i = 0; i < kLanes; i += 8) {
        const __m256i dwords =
            _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes + i)), low);
        const __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(dwords),
                                                _mm256_extracti128_si256(dwords, 1));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                            _mm256_castps_si256(_mm256_cvtph_ps(halves)));
    }
#endif
}

/// 64 f32 values, as bits, rounded in place to f16 (the host's rounding mode by default); high halves zero.
template <int Rounding = _MM_FROUND_CUR_DIRECTION>
inline void narrow_f16(uint32_t* lanes) {
#ifdef __AVX512F__
    for (int i = 0; i < kLanes; i += 16) {
        const __m256i halves = _mm512_cvtps_ph(_mm512_loadu_ps(lanes + i), Rounding);
        _mm512_storeu_si512(lanes + i, _mm512_cvtepu16_epi32(halves));
    }
#else
    for (int i = 0; i < kLanes; i += 8) {
        const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes + i));
        const __m128i halves =
            _mm256_cvtps_ph(_mm256_castsi256_ps(bits), Rounding);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes + i), _mm256_cvtepu16_epi32(halves));
    }
#endif
}

inline float f16_to_f32(uint16_t bits) { return _cvtsh_ss(bits); }

/// Round in the host's current rounding mode.
inline uint16_t f32_to_f16(float value) {
    return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_CUR_DIRECTION));
}

inline float bf16_to_f32(uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// Round to nearest even; NaN keeps its top payload bits and becomes quiet.
inline uint16_t f32_to_bf16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return static_cast<uint16_t>((bits >> 16) | 0x40u);
    }
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// A double cut to 24 significant bits with the lost bits OR-ed into the last one (round to odd), so
/// that a second rounding to 22 bits or fewer gives what one rounding would have given.
inline float f64_to_f32_sticky(double value) {
    constexpr uint64_t kLost = 0x1fffffffull;
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    const uint64_t sticky = (bits & kLost) != 0 ? kLost + 1 : 0;
    return static_cast<float>(std::bit_cast<double>((bits & ~kLost) | sticky));
}

/// a + b in double, its last bit made odd where the sum is not exact: rounding it to at most 51 bits then gives
/// what one rounding of the exact sum would have given, in every host rounding mode.
inline double sum_to_odd(double a, double b) {
    const double sum = a + b;
    const double back = sum - a;
    const double error = (a - (sum - back)) + (b - back);  // Knuth's two-sum: what the sum lost
    // Both false when the sum is infinite or NaN.
    const uint64_t above = error > 0 ? 1 : 0, below = error < 0 ? 1 : 0;
    const uint64_t bits = std::bit_cast<uint64_t>(sum);
    const uint64_t sign = 0 - (bits >> 63);  // in a negative number a step up in value is one down in bits
    const uint64_t step = ((above - below) ^ sign) - sign;
    return std::bit_cast<double>(bits + ((bits & 1) == 0 ? step : 0));
}

/// a*b + c of f16 values, exact up to a sticky last bit: rounding the result to f16 rounds once.
inline float fma_for_f16(float a, float b, float c) {
    const double product = static_cast<double>(a) * b;  // 22 bits: exact
    const float sum = f64_to_f32_sticky(sum_to_odd(product, c));
    // Of several NaNs the first, in whichever order the compiler multiplies and adds.
    return a != a ? a : b != b ? b : product == product ? sum : static_cast<float>(product);
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
