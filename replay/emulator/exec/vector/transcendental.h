// Transcendental functions of one lane, computed in double and rounded once to f32: within one ulp of any legal
// hardware result, though no public source promises the hardware's bits. The f32 forms flush denormal inputs and
// results whatever MODE says (ISA notes of V_EXP_F32, V_LOG_F32, V_RCP_F32, V_RSQ_F32, V_SQRT_F32).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "exec/vector/float_bits.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

namespace detail {

constexpr double kLn2 = 0.69314718055994530942;
constexpr int kExp2Terms = 12;  // (ln2/2)^12/12! < 7e-15

struct Exp2Series {
    double coefficient[kExp2Terms];
    constexpr Exp2Series() : coefficient{} {
        double term = 1;
        for (int i = 0; i < kExp2Terms; ++i) {
            coefficient[i] = term;
            term = term * kLn2 / (i + 1);
        }
    }
};
constexpr Exp2Series kExp2;

constexpr double kRoundToInteger = 6755399441055744.0;  // 1.5 * 2^52: the sum's low bits are the integer

}  // namespace detail

/// 2^x for |x| below 1000, relative error below 1e-14; exact for integers.
inline double exp2_double(double x) {
    const double shifted = x + detail::kRoundToInteger;
    const double whole = shifted - detail::kRoundToInteger;
    const double fraction = x - whole;
    double sum = detail::kExp2.coefficient[detail::kExp2Terms - 1];
#pragma GCC unroll 16
    for (int i = detail::kExp2Terms - 2; i >= 0; --i) {
        sum = __builtin_fma(sum, fraction, detail::kExp2.coefficient[i]);
    }
    const uint64_t exponent = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;
    return sum * std::bit_cast<double>(exponent);
}

/// log2 of a positive normal float, relative error below 1e-15: 2/ln2 * atanh((m-1)/(m+1)) + exponent.
inline double log2_double(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    constexpr uint32_t kHalfRoot = 0x3f3504f3u;  // sqrt(1/2): mantissa taken from [0.707, 1.414)
    const int32_t exponent = static_cast<int32_t>(bits - kHalfRoot) >> 23;
    const double m = std::bit_cast<float>(bits - (static_cast<uint32_t>(exponent) << 23));
    const double s = (m - 1.0) / (m + 1.0), z = s * s;
    double sum = 0;
#pragma GCC unroll 16
    for (int power = 19; power >= 1; power -= 2) {
        sum = __builtin_fma(sum, z, 1.0 / power);
    }
    return exponent + sum * s * (2.0 / detail::kLn2);
}

inline float exp2_f32(float x) {
    const float input = flushed(x);
    const float limited = input < -200.0f ? -200.0f : input > 200.0f ? 200.0f : input;
    const float result = flushed(static_cast<float>(exp2_double(x == x ? limited : 0.0f)));
    return x == x ? result : x + x;
}

inline float log2_f32(float x) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float input = flushed(x);
    const bool regular = input > 0.0f && input < kInfinity;
    float result = static_cast<float>(log2_double(regular ? input : 1.0f));
    result = input == 0.0f ? -kInfinity : result;
    result = input == kInfinity ? kInfinity : result;
    result = input < 0.0f ? std::bit_cast<float>(0xffc00000u) : result;
    return input == input ? result : input + input;
}

inline float rcp_f32(float x) { return flushed(1.0f / flushed(x)); }

inline float sqrt_f32(float x) { return __builtin_sqrtf(flushed(x)); }

inline float rsq_f32(float x) {
    return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(flushed(x))));
}

/// sin(2*pi*turns), or its cosine: the nearest quarter turn is taken off exactly first.
inline double sin_turns(double turns, bool cosine) {
    if (std::isnan(turns)) {
        return turns;
    }
    if (std::isinf(turns)) {
        return std::bit_cast<double>(0xfff8000000000000ull);
    }
    if (turns == 0 && !cosine) {
        return turns;
    }
    const double quarters = std::nearbyint(turns * 4);
    const double angle = (turns - quarters / 4) * 6.28318530717958647693;
    const int quadrant = static_cast<int>(std::fmod(quarters, 4)) + (cosine ? 1 : 0);
    const double value = (quadrant & 1) != 0 ? std::cos(angle) : std::sin(angle);
    return ((quadrant & 2) != 0 ? -value : value) + 0.0;
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
