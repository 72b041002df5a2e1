// The steps of IEEE division: v_div_scale moves operands away from the ends of the exponent range, v_div_fmas
// undoes that after the last refinement, v_div_fixup puts in the special cases.
//
// The CDNA3 ISA's pseudocode of V_DIV_FMAS has the constant 2^32 and of V_DIV_SCALE scales a huge denominator
// up; taken literally, the sequence that LLVM emits would then not divide. What is here is the form of AMD's
// later ISA guides, with which that sequence gives the correctly rounded quotient (test_valu_division.py).
#include <cmath>

#include "exec/vector/float_bits.h"
#include "exec/vector/tables.h"

namespace asmevo::emulator {

namespace {

using enum Type;

template <typename T>
struct DivisionTraits;

template <>
struct DivisionTraits<float> {
    using Bits = uint32_t;
    static constexpr int kScale = 64, kFarApart = 96, kTinyNumerator = 23, kUnderflow = -150;
    static constexpr float kUp = 0x1p64f, kDown = 0x1p-64f, kSmallest = 0x1p-149f;
};

template <>
struct DivisionTraits<double> {
    using Bits = uint64_t;
    static constexpr int kScale = 128, kFarApart = 768, kTinyNumerator = 53, kUnderflow = -1075;
    static constexpr double kUp = 0x1p128, kDown = 0x1p-128, kSmallest = 0x1p-1074;
};

template <typename T>
auto bits_of(T value) {
    return std::bit_cast<typename DivisionTraits<T>::Bits>(value);
}

template <typename T>
bool is_denormal(T value) {
    return value != 0 && exponent_of(bits_of(value)) == 0;
}

template <typename T>
struct Scaled {
    T value;
    bool unscale_later;
};

// Whether numerator / denominator lies below the normal range.
bool quotient_is_denormal(float numerator, float denominator) {
    return std::fabs(static_cast<double>(numerator) / denominator) < 0x1p-126;
}

bool quotient_is_denormal(double numerator, double denominator) {
    int numerator_exponent, denominator_exponent;
    const double a = std::fabs(std::frexp(numerator, &numerator_exponent));
    const double b = std::fabs(std::frexp(denominator, &denominator_exponent));
    const int exponent = numerator_exponent - denominator_exponent - (a < b ? 1 : 0);
    return exponent < -1022;
}

// V_DIV_SCALE: S0 is the one of denominator (S1) and numerator (S2) to scale.
template <typename T>
Scaled<T> scale_for_division(T value, T denominator, T numerator) {
    using Traits = DivisionTraits<T>;
    const int top = exponent_of(bits_of(numerator)), bottom = exponent_of(bits_of(denominator));
    const int apart = top - bottom;
    constexpr int kBias = FloatFormat<typename Traits::Bits>::kBias;
    // The usual case, in which no test below holds.
    if (top > Traits::kTinyNumerator && top <= 2 * kBias && bottom > 0 && bottom <= 2 * kBias - 2 &&
        apart < Traits::kFarApart && apart >= 2 - kBias) {
        return {value, false};
    }
    const T up = value * Traits::kUp, down = value * Traits::kDown;
    if (numerator == 0 || denominator == 0) {
        return {std::numeric_limits<T>::quiet_NaN(), false};
    }
    if (apart >= Traits::kFarApart) {
        return {value == denominator ? up : value, true};
    }
    if (is_denormal(denominator)) {
        return {up, false};
    }
    const bool tiny_reciprocal = quotient_is_denormal(T(1), denominator);
    const bool tiny_quotient = quotient_is_denormal(numerator, denominator);
    if (tiny_reciprocal && tiny_quotient) {
        return {value == denominator ? down : value, true};
    }
    if (tiny_reciprocal) {
        return {down, false};
    }
    if (tiny_quotient) {
        return {value == numerator ? up : value, true};
    }
    return {top <= Traits::kTinyNumerator ? up : value, false};
}

template <typename T>
void divide_scale(Wave& wave, const Inst& inst) {
    if (inst.clamp || inst.omod != 0) {
        throw Fault("output modifiers of v_div_scale are not implemented");
    }
    Scratch scratch[3];
    Source source[3];
    for (int i = 0; i < 3; ++i) {
        source[i] = fetch<kPlain>(wave, inst, i, scratch[i]);
    }
    detail::Result result;
    uint64_t mask = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        const Scaled<T> scaled = scale_for_division(detail::load_lane<T>(source[0], lane),
                                                    detail::load_lane<T>(source[1], lane),
                                                    detail::load_lane<T>(source[2], lane));
        detail::put_lane(result.low, result.high, lane, scaled.value);
        mask |= static_cast<uint64_t>(scaled.unscale_later) << lane;
    }
    detail::store<T, kPlain>(wave, inst, result);
    write_lane_mask(wave, inst.dst[1], mask & wave.exec());
}

// scale * (a*b + c) rounded once: the sum is kept to 53 bits with a sticky last bit, more than twice what f32 has.
float scaled_fma(float a, float b, float c, int scale) {
    const double product = static_cast<double>(a) * b;
    return static_cast<float>(std::ldexp(sum_to_odd(product, c), scale));
}

double scaled_fma(double a, double b, double c, int scale) {
    const double plain = __builtin_fma(a, b, c);
    if (exponent_of(bits_of(plain)) + scale >= 1) {
        return std::ldexp(plain, scale);  // the result is normal, so scaling is exact
    }
    using Wide = __float128;  // 113 bits: the product is exact
    const Wide factor = std::ldexp(1.0, scale);
    return static_cast<double>((static_cast<Wide>(a) * b + c) * factor);
}

template <typename T>
T divide_fmas(T a, T b, T c, bool scaled) {
    if (!scaled) {
        return std::fma(a, b, c);
    }
    const int scale = DivisionTraits<T>::kScale;
    const bool large = exponent_of(bits_of(c)) > FloatFormat<typename DivisionTraits<T>::Bits>::kBias;
    return scaled_fma(a, b, c, large ? scale : -scale);
}

template <typename T>
[[gnu::noinline]] void divide_fmas_lanes(Wave& wave, const Inst& inst) {
    Scratch scratch[3];
    Source source[3];
    for (int i = 0; i < 3; ++i) {
        source[i] = fetch<kPlain>(wave, inst, i, scratch[i]);
    }
    const uint64_t vcc = wave.vcc();
    detail::Result result;
    for (int lane = 0; lane < kLanes; ++lane) {
        const T value = divide_fmas(detail::load_lane<T>(source[0], lane),
                                    detail::load_lane<T>(source[1], lane),
                                    detail::load_lane<T>(source[2], lane), (vcc >> lane & 1) != 0);
        detail::put_lane(result.low, result.high, lane, value);
    }
    detail::store<T, kPlain>(wave, inst, result);
}

template <typename T>
void divide_fmas(Wave& wave, const Inst& inst) {
    constexpr auto types = [](T a) { return a; };
    detail::run_rounded<types, kPlain, &divide_fmas_lanes<T>>(wave, inst);
}

// V_DIV_FIXUP on bits: S0 the quotient, S1 the denominator, S2 the numerator. `underflow` is what a quotient below
// half the smallest denormal rounds to, `overflow` what one beyond the largest number does.
template <typename U>
U fix_quotient(U quotient, U denominator, U numerator, int apart_limit, U underflow, U overflow) {
    using Format = FloatFormat<U>;
    const U sign = static_cast<U>((denominator ^ numerator) & Format::kSign);
    const U top = static_cast<U>(denominator & ~Format::kSign);
    const U bottom = static_cast<U>(numerator & ~Format::kSign);
    const auto is_regular = [](U bits) {
        return exponent_of(bits) != 0 && exponent_of(bits) != Format::kExponentMax;
    };
    const int apart = exponent_of(numerator) - exponent_of(denominator);
    if (is_regular(numerator) && is_regular(denominator) && apart >= apart_limit &&
        exponent_of(quotient) != Format::kExponentMax) {
        return static_cast<U>(sign | (quotient & ~Format::kSign));
    }
    const U invalid = static_cast<U>(Format::kSign | Format::kInfinity | Format::kQuiet);
    if (is_nan(numerator)) {
        return quieted(numerator);
    }
    if (is_nan(denominator)) {
        return quieted(denominator);
    }
    if ((top == 0 && bottom == 0) || (top == Format::kInfinity && bottom == Format::kInfinity)) {
        return invalid;
    }
    if (top == 0 || bottom == Format::kInfinity) {
        return static_cast<U>(sign | Format::kInfinity);
    }
    if (top == Format::kInfinity || bottom == 0) {
        return sign;
    }
    if (apart < apart_limit) {
        return static_cast<U>(sign | underflow);
    }
    // The guide's pseudocode tests S1 here, which cannot be infinite any more at this point.
    if (exponent_of(quotient) == Format::kExponentMax) {
        return static_cast<U>(sign | overflow);
    }
    return static_cast<U>(sign | (quotient & ~Format::kSign));
}

constexpr auto fix_quotient_f16 = [](uint16_t quotient, uint16_t denominator, uint16_t numerator) {
    constexpr int kNoLimit = -100000;  // v_div_fixup_f16 takes every other quotient as it is
    const uint16_t overflow = quotient & 0x7fffu;
    return fix_quotient(quotient, denominator, numerator, kNoLimit, uint16_t{0}, overflow);
};

template <typename T>
T fix_quotient_of(T quotient, T denominator, T numerator) {
    using Traits = DivisionTraits<T>;
    // Nearest even gives zero and infinity; directed rounding may give the smallest or largest number.
    const T sign = std::signbit(denominator) != std::signbit(numerator) ? T(-1) : T(1);
    const T underflow = sign * Traits::kSmallest * T(0.25);
    const T overflow = sign * std::numeric_limits<T>::max() * T(2);
    return std::bit_cast<T>(fix_quotient(bits_of(quotient), bits_of(denominator), bits_of(numerator),
                                         Traits::kUnderflow, bits_of(std::fabs(underflow)),
                                         bits_of(std::fabs(overflow))));
}

constexpr OpInfo row(const char* name, uint16_t opcode, Type type, Handler run,
                     uint32_t flags = kNoFlags) {
    return vector_row(name, Encoding::kVop3, opcode, type, {type, type, type}, run, flags);
}

constexpr OpInfo with_mask(OpInfo info) {
    info.dst[1] = kMask;
    return info;
}

constexpr OpInfo kTable[] = {
    row("v_div_fixup_f32", 0x1de, kF32, lanes<[](float q, float d, float n) {
            return fix_quotient_of(q, d, n);
        }>),
    row("v_div_fixup_f64", 0x1df, kF64, lanes<[](double q, double d, double n) {
            return fix_quotient_of(q, d, n);
        }>),
    with_mask(row("v_div_scale_f32", 0x1e0, kF32, divide_scale<float>)),
    with_mask(row("v_div_scale_f64", 0x1e1, kF64, divide_scale<double>)),
    row("v_div_fmas_f32", 0x1e2, kF32, divide_fmas<float>, kReadsVcc),
    row("v_div_fmas_f64", 0x1e3, kF64, divide_fmas<double>, kReadsVcc),
    row("v_div_fixup_legacy_f16", 0x1ef, kF16, lanes<fix_quotient_f16>),
    row("v_div_fixup_f16", 0x207, kF16, lanes<fix_quotient_f16, kKeepsHigh>),
};

}  // namespace

std::span<const OpInfo> vop3_division_ops() { return kTable; }

}  // namespace asmevo::emulator
