// Conversion of one lane to and from the small float formats, with what their instructions have in common: overflow,
// special values, scales.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "exec/vector/lanes.h"
#include "exec/vector/small_float.h"

namespace asmevo::emulator {

/// Overflow follows MODE.FP16_OVFL: the largest number when set, otherwise infinity or NaN. FP6 and FP4 have neither
/// and always take the largest number.
template <SmallFormat Format>
constexpr uint32_t place_magnitude(uint32_t magnitude, bool negative, bool saturates) {
    const uint32_t sign = negative ? Format.sign() : 0u;
    if (magnitude > Format.largest) {
        if (saturates || !Format.has_nan) {
            return Format.largest | sign;
        }
        return Format.has_infinity ? (Format.largest + 1u) | sign
               : Format.is_fnuz    ? Format.sign()
                                   : (Format.largest + 1u) | sign;
    }
    return magnitude == 0 && Format.is_fnuz ? 0 : magnitude | sign;
}

/// NaN keeps its sign; formats without one get the largest number (amd_hip_ocp_host.hpp, nan).
template <SmallFormat Format>
constexpr uint32_t nan_code(bool negative) {
    if (Format.is_fnuz) {
        return Format.sign();
    }
    return (Format.has_nan ? Format.sign() - 1u : Format.largest) | (negative ? Format.sign() : 0u);
}

/// What happens to the bits below the last kept one.
struct Rounding {
    bool is_stochastic = false;
    uint32_t random = 0;
};

/// `source_bits`: bits behind the leading one that the source format has. An infinity counts as an overflow, under
/// FP16_OVFL too (rocjitsu's model of the FP8 tables, data_types.h).
template <SmallFormat Format>
uint32_t encode_small(double value, bool saturates, int source_bits, Rounding rounding) {
    const bool negative = std::signbit(value);
    if (std::isnan(value)) {
        return nan_code<Format>(negative);
    }
    const uint32_t magnitude = std::isinf(value) ? 0xffffu
                               : rounding.is_stochastic
                                   ? round_stochastically(Format, value, source_bits, rounding.random)
                                   : round_magnitude(Format, value);
    return place_magnitude<Format>(magnitude, negative, saturates);
}

/// Power of two that an f32 scale stands for: only its exponent counts (E8M0).
inline double scale_factor(uint32_t bits) {
    const int exponent = static_cast<int>(bits >> 23 & 0xff);
    return exponent == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, exponent - 127);
}

/// value / factor. A NaN factor gives a NaN of the value's sign.
inline double unscale(double value, double factor) {
    return std::isnan(factor) ? std::copysign(factor, value) : value / factor;
}

/// The formats at the wide side of a conversion.
enum class Wide { kF32, kF16, kBf16 };

constexpr int mantissa_bits(Wide kind) { return kind == Wide::kF32 ? 23 : kind == Wide::kF16 ? 10 : 7; }

template <Wide Kind>
double widen(uint32_t bits) {
    if constexpr (Kind == Wide::kF32) {
        return std::bit_cast<float>(bits);
    } else if constexpr (Kind == Wide::kBf16) {
        return bf16_to_f32(static_cast<uint16_t>(bits));
    } else {
        return f16_to_f32(static_cast<uint16_t>(bits));
    }
}

template <Wide Kind>
uint32_t encode_wide(LaneEnv env, double value) {
    const float single = static_cast<float>(value);
    if constexpr (Kind == Wide::kF32) {
        return std::bit_cast<uint32_t>(single);
    } else if constexpr (Kind == Wide::kBf16) {
        return f32_to_bf16(single);
    } else {
        const float limit = env.fp16_overflow() && std::isfinite(single) ? 65504.0f : INFINITY;
        return f32_to_f16(std::isnan(single) ? single : std::fmin(std::fmax(single, -limit), limit));
    }
}

/// What V_PRNG_B32 computes; conversions of several elements draw their random numbers from it.
constexpr uint32_t next_random(uint32_t state) {
    return state << 1 ^ ((state & 0x80000000u) != 0 ? 197u : 0u);
}

inline void refuse_modifiers(const Inst& inst) {
    if (inst.clamp || inst.omod != 0) {
        throw Fault(std::string("output modifiers of ") + inst.info->name + " are not implemented");
    }
}

/// Source `index` without the selection that op_sel would make: these operations use op_sel in their own ways.
inline Source fetch_unselected(const Wave& wave, const Inst& inst, int index, Scratch& scratch) {
    if (!inst.src[index].op_sel) {
        return fetch<kNoFlush>(wave, inst, index, scratch);
    }
    Inst plain = inst;
    plain.src[index].op_sel = false;
    const Source source = fetch<kNoFlush>(wave, plain, index, scratch);
    return source;
}

/// The field of `mask` at `shift` from `lanes`, the rest as the destination has it.
inline void store_field(Wave& wave, const Inst& inst, uint32_t* lanes, uint32_t shift, uint32_t mask) {
    Scratch scratch;
    const uint32_t* old = fetch_accumulator(wave, inst, kNoFlush, scratch).low;
    for (int lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = (old[lane] & ~(mask << shift)) | (lanes[lane] & mask) << shift;
    }
    store_dword(wave, inst, lanes);
}

/// Word or byte of the destination that op_sel names.
constexpr uint32_t word_shift(const Inst& inst) { return (inst.op_sel & 8) != 0 ? 16 : 0; }
constexpr uint32_t byte_shift(const Inst& inst) { return 8u * (inst.op_sel >> 2 & 3u); }

constexpr const char* kSaturationNote =
    "infinity under FP16_OVFL becomes the largest number, as in AMD's rocjitsu; AMD publishes no table of it";
constexpr const char* kStochasticNote =
    "random bits are added as HIP's host conversion does (amd_hip_ocp_host.hpp); the guide's pseudocode leaves "
    "carries and subnormals open";
constexpr const char* kScaledNote =
    "rounding, overflow and NaN as in HIP's host conversion (amd_hip_ocp_host.hpp) and MODE.FP16_OVFL; the guide "
    "does not define its helper functions";

}  // namespace asmevo::emulator
