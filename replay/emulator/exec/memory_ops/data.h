// Shapes of the data that one lane moves: how many bytes, and how they enter and leave registers.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "exec/wave.h"
#include "isa/op_info.h"

namespace asmevo::emulator {

enum class Data : uint8_t {
    kU8,
    kI8,
    kU16,
    kI16,  // widened to 32 bits; stores take the low bits
    kU8Low,
    kU8High,
    kI8Low,
    kI8High,  // D16: widened to 16 bits, the other half is kept
    kB16Low,
    kB16High,
    kB32,
    kB64,
    kB96,
    kB128,
};

constexpr uint32_t size_bytes(Data data) {
    switch (data) {
        case Data::kU8:
        case Data::kI8:
        case Data::kU8Low:
        case Data::kU8High:
        case Data::kI8Low:
        case Data::kI8High:
            return 1;
        case Data::kU16:
        case Data::kI16:
        case Data::kB16Low:
        case Data::kB16High:
            return 2;
        case Data::kB32:
            return 4;
        case Data::kB64:
            return 8;
        case Data::kB96:
            return 12;
        case Data::kB128:
            return 16;
    }
    return 0;
}

constexpr bool is_low_half(Data data) {
    return data == Data::kU8Low || data == Data::kI8Low || data == Data::kB16Low;
}
constexpr bool is_high_half(Data data) {
    return data == Data::kU8High || data == Data::kI8High || data == Data::kB16High;
}
constexpr bool is_half(Data data) {
    return is_low_half(data) || is_high_half(data);
}

constexpr Type register_type(Data data) {
    switch (data) {
        case Data::kB64:
            return Type::kB64;
        case Data::kB96:
            return Type::kB96;
        case Data::kB128:
            return Type::kB128;
        default:
            return Type::kB32;
    }
}

template <typename T>
inline T read_bytes(const uint8_t* source) {
    T value;
    std::memcpy(&value, source, sizeof(T));
    return value;
}

/// Value of a sub-dword load after widening (to 16 bits for the D16 forms).
template <Data D>
inline uint32_t widen(const uint8_t* source) {
    switch (D) {
        case Data::kU8:
        case Data::kU8Low:
        case Data::kU8High:
            return *source;
        case Data::kI8:
            return static_cast<uint32_t>(static_cast<int32_t>(read_bytes<int8_t>(source)));
        case Data::kI8Low:
        case Data::kI8High:
            return static_cast<uint16_t>(static_cast<int16_t>(read_bytes<int8_t>(source)));
        case Data::kI16:
            return static_cast<uint32_t>(static_cast<int32_t>(read_bytes<int16_t>(source)));
        default:
            return read_bytes<uint16_t>(source);
    }
}

/// Writes loaded bytes to one lane of the register(s) starting at `index`.
template <Data D>
inline void load_lane(Wave& wave, uint16_t index, int lane, const uint8_t* source) {
    if constexpr (size_bytes(D) >= 4) {
        for (uint32_t dword = 0; dword < size_bytes(D) / 4; ++dword) {
            wave.lanes(index + dword)[lane] = read_bytes<uint32_t>(source + 4 * dword);
        }
    } else {
        uint32_t& target = wave.lanes(index)[lane];
        const uint32_t value = widen<D>(source);
        if constexpr (is_low_half(D)) {
            target = (target & 0xffff0000u) | value;
        } else if constexpr (is_high_half(D)) {
            target = (target & 0x0000ffffu) | (value << 16);
        } else {
            target = value;
        }
    }
}

/// Reads the bytes to store from one lane of the register(s) starting at `index`.
template <Data D>
inline void store_lane(const Wave& wave, uint16_t index, int lane, uint8_t* target) {
    if constexpr (size_bytes(D) >= 4) {
        for (uint32_t dword = 0; dword < size_bytes(D) / 4; ++dword) {
            std::memcpy(target + 4 * dword, &wave.lanes(index + dword)[lane], 4);
        }
    } else {
        uint32_t value = wave.lanes(index)[lane];
        if constexpr (is_high_half(D)) {
            value >>= 16;
        }
        std::memcpy(target, &value, size_bytes(D));
    }
}

/// Calls `body(lane)` for each active lane, in lane order.
template <typename Body>
inline void for_each_lane(uint64_t exec, Body&& body) {
    if (exec == ~0ull) {
        for (int lane = 0; lane < kLanes; ++lane) {
            body(lane);
        }
        return;
    }
    for (; exec != 0; exec &= exec - 1) {
        body(std::countr_zero(exec));
    }
}

}  // namespace asmevo::emulator
