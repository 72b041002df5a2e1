// Conversions of one lane between float and integer formats.
#pragma once

#include <cmath>
#include <cstdint>

#include "exec/vector/half.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

/// Toward zero, saturating, NaN to zero.
inline int32_t to_i32(float value) {
    constexpr float kBelowLimit = 2147483520.0f;  // largest float below 2^31
    const float number = value == value ? value : 0.0f;
    const float low = number < -2147483648.0f ? -2147483648.0f : number;
    const int32_t result = static_cast<int32_t>(low > kBelowLimit ? kBelowLimit : low);
    return number > kBelowLimit ? 0x7fffffff : result;
}

inline uint32_t to_u32(float value) {
    constexpr float kHalf = 2147483648.0f, kBelowLimit = 4294967040.0f;
    const float positive = value > 0.0f ? value : 0.0f;  // NaN too
    const float limited = positive > kBelowLimit ? kBelowLimit : positive;
    const bool upper = limited >= kHalf;
    const int32_t part = static_cast<int32_t>(upper ? limited - kHalf : limited);
    const uint32_t result = static_cast<uint32_t>(part) + (upper ? 0x80000000u : 0u);
    return positive > kBelowLimit ? ~0u : result;
}

inline int32_t to_i32(double value) {
    if (value != value) {
        return 0;
    }
    return value <= -2147483648.0 ? INT32_MIN
           : value >= 2147483647.0 ? INT32_MAX
                                   : static_cast<int32_t>(value);
}

inline uint32_t to_u32(double value) {
    if (!(value > 0)) {
        return 0;
    }
    return value >= 4294967295.0 ? UINT32_MAX : static_cast<uint32_t>(value);
}

inline int16_t to_i16(float value) {
    const int32_t whole = to_i32(value);
    return static_cast<int16_t>(whole < -32768 ? -32768 : whole > 32767 ? 32767 : whole);
}

inline uint16_t to_u16(float value) {
    const uint32_t whole = to_u32(value);
    return static_cast<uint16_t>(whole > 65535 ? 65535 : whole);
}

/// Nearest signed normalized 16-bit number: [-1, 1] to [-32767, 32767], NaN to zero.
inline int16_t to_snorm16(float value) {
    const double number = value == value ? value : 0.0;
    const double limited = number < -1 ? -1 : number > 1 ? 1 : number;
    return static_cast<int16_t>(__builtin_roundeven(limited * 32767));
}

inline uint16_t to_unorm16(float value) {
    const double number = value == value ? value : 0.0;
    const double limited = number < 0 ? 0 : number > 1 ? 1 : number;
    return static_cast<uint16_t>(static_cast<int32_t>(__builtin_roundeven(limited * 65535)));
}

/// Nearest-even (the host's mode) to an 8-bit integer, saturating, NaN to zero.
inline uint32_t to_u8(float value) {
    const float positive = value > 0.0f ? value : 0.0f;
    return static_cast<uint32_t>(static_cast<int32_t>(
        __builtin_rintf(positive > 255.0f ? 255.0f : positive)));
}

/// Signed nibble as a sixteenth.
inline float offset_i4(uint32_t value) {
    return static_cast<float>(static_cast<int32_t>(value << 28) >> 28) * 0.0625f;
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
