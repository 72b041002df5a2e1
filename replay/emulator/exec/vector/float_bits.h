// Operations on the bits of IEEE floats of 16, 32 and 64 bits that host arithmetic would get wrong: minimum and
// maximum with AMD's NaN rules, classification, median, denormal tests.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "exec/vector/lanes.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

/// Field masks of the float format stored in an unsigned integer.
template <typename U>
struct FloatFormat {
    static constexpr int kMantissaBits = sizeof(U) == 2 ? 10 : sizeof(U) == 4 ? 23 : 52;
    static constexpr int kBias = sizeof(U) == 2 ? 15 : sizeof(U) == 4 ? 127 : 1023;
    static constexpr U kSign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
    static constexpr U kQuiet = static_cast<U>(U{1} << (kMantissaBits - 1));
    static constexpr U kMantissa = static_cast<U>((U{1} << kMantissaBits) - 1);
    static constexpr U kInfinity = static_cast<U>(~(kSign | kMantissa));
    static constexpr int kExponentMax = static_cast<int>(kInfinity >> kMantissaBits);
};

template <typename U>
constexpr bool is_nan(U bits) {
    using S = std::make_signed_t<U>;  // x86 compares signed vectors
    const U magnitude = static_cast<U>(bits & ~FloatFormat<U>::kSign);
    return static_cast<S>(magnitude) > static_cast<S>(FloatFormat<U>::kInfinity);
}

template <typename U>
constexpr bool is_signaling(U bits) {
    return is_nan(bits) & ((bits & FloatFormat<U>::kQuiet) == 0);
}

template <typename U>
constexpr U quieted(U bits) {
    return static_cast<U>(bits | FloatFormat<U>::kQuiet);
}

template <typename U>
constexpr int exponent_of(U bits) {
    return static_cast<int>((bits & FloatFormat<U>::kInfinity) >> FloatFormat<U>::kMantissaBits);
}

/// Integer that orders floats by value, with -0 below +0.
template <typename U>
constexpr std::make_signed_t<U> order_key(U bits) {
    using S = std::make_signed_t<U>;
    const S value = static_cast<S>(bits);
    const S flip = value < 0 ? std::numeric_limits<S>::max() : S{0};
    return static_cast<S>(value ^ flip);
}

template <typename U>
constexpr bool equal_values(U a, U b) {
    return (a == b) | (static_cast<U>((a | b) << 1) == 0);
}

// A NaN gives way to the other source; in IEEE mode a signalling one is quieted and wins (ISA, V_MIN_F32).
// Bitwise operators and selections only, so that the lane loop is one of vector instructions.
template <typename U>
constexpr U pick(LaneEnv env, U a, U b, bool a_wins) {
    const bool ieee = env.ieee();
    U result = a_wins ? a : b;
    result = is_nan(b) ? a : result;
    result = is_nan(a) ? b : result;
    result = (ieee & is_signaling(b)) ? quieted(b) : result;
    return (ieee & is_signaling(a)) ? quieted(a) : result;
}

template <typename U>
constexpr U min_float(LaneEnv env, U a, U b) {
    return pick(env, a, b, order_key(a) < order_key(b));
}

template <typename U>
constexpr U max_float(LaneEnv env, U a, U b) {
    return pick(env, a, b, order_key(a) > order_key(b));
}

// IEEE 754-2019 minimum: a NaN wins (gfx950).
template <typename U>
constexpr U minimum_float(U a, U b) {
    const U smaller = order_key(a) < order_key(b) ? a : b;
    return is_nan(a) ? quieted(a) : is_nan(b) ? quieted(b) : smaller;
}

template <typename U>
constexpr U maximum_float(U a, U b) {
    const U larger = order_key(a) > order_key(b) ? a : b;
    return is_nan(a) ? quieted(a) : is_nan(b) ? quieted(b) : larger;
}

/// Whether the class of `bits` is in `wanted` (V_CMP_CLASS: sNaN, qNaN, -inf, -normal, -denormal, -0, +0, …).
template <typename U>
constexpr bool in_class(U bits, uint32_t wanted) {
    const bool negative = (bits & FloatFormat<U>::kSign) != 0;
    const U magnitude = static_cast<U>(bits & ~FloatFormat<U>::kSign);
    int bit;
    if (is_nan(bits)) {
        bit = is_signaling(bits) ? 0 : 1;
    } else if (magnitude == FloatFormat<U>::kInfinity) {
        bit = negative ? 2 : 9;
    } else if (exponent_of(bits) != 0) {
        bit = negative ? 3 : 8;
    } else if (magnitude != 0) {
        bit = negative ? 4 : 7;
    } else {
        bit = negative ? 5 : 6;
    }
    return ((wanted >> bit) & 1) != 0;
}

inline float flushed(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    return (bits & 0x7f800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : value;
}

/// v_mac_f32, v_mad_f32 (gfx90a): not fused, and denormals are flushed at every step whatever MODE says.
inline float mad_flushing(float a, float b, float c) {
    const float product = flushed(flushed(a) * flushed(b));
    // Of two NaNs the product's, in whichever order the compiler adds.
    return product == product ? flushed(product + flushed(c)) : product;
}

/// v_mad_f16 and its kin: product and sum are each rounded to f16, denormals flushed at every step.
inline F16 mad_flushing_f16(F16 a, F16 b, F16 c) {
    constexpr float kSmallest = 0x1p-14f;
    constexpr auto flush = [](float value) { return std::fabs(value) < kSmallest ? std::copysign(0.0f, value) : value; };
    const float product = flush(f16_to_f32(f32_to_f16(flush(a) * flush(b))));
    const float sum = f64_to_f32_sticky(static_cast<double>(product) + flush(c));  // an exact sum
    return flush(f16_to_f32(f32_to_f16(sum)));
}

constexpr const char* kMadF16Note =
    "product and sum are each rounded and denormals flushed, as v_mad_f32 does and LLVM's FMAD takes it; the guide "
    "says neither";

/// value * 2^exponent, rounded once, into the denormal range too.
inline float scale_f32(float value, int32_t exponent) {
    const int32_t limited = exponent < -400 ? -400 : exponent > 400 ? 400 : exponent;
    const double factor = std::bit_cast<double>(static_cast<uint64_t>(1023 + limited) << 52);
    return static_cast<float>(value * factor);  // exact in double
}

/// As scale_f32 for a value that is then rounded to f16.
inline F16 scale_f16(F16 value, int32_t exponent) {
    const int32_t limited = exponent < -60 ? -60 : exponent > 60 ? 60 : exponent;
    return value.value * std::bit_cast<float>(static_cast<uint32_t>(127 + limited) << 23);
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
