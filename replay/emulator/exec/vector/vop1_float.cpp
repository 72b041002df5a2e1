// VOP1: rounding to integers, fraction, frexp, and the transcendental unit.
#include "exec/vector/tables.h"
#include "exec/vector/transcendental.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

namespace {

using enum Type;

constexpr OpInfo row(const char* name, uint16_t opcode, Type dst, Type source, Handler run,
                     Category category = Category::kValu) {
    return vector_row(name, Encoding::kVop1, opcode, dst, {source}, run, kNoFlags, kAllTargets, category);
}

constexpr const char* kUlpNote = "computed in double and rounded once; a GPU promises 1 ulp and its bits are not published";
constexpr const char* kSeedNote =
    "within 1 ulp here; a GPU gives a seed for Newton iterations, with an error of up to 2^29 ulp";
constexpr const char* kTurnsNote = "computed in double and rounded; neither an error bound nor a GPU's bits are published";
constexpr const char* kHalfNote = "rounded to f32 and then to f16, within the 0.51 ulp that a GPU promises; its bits are not published";
constexpr const char* kLegacyNote = "computed as the operation without `legacy`; what differs is not published";

constexpr OpInfo trans(const char* name, uint16_t opcode, Type type, Handler run, const char* note) {
    return approximate(row(name, opcode, type, type, run, Category::kTrans), note);
}

// x - floor(x), kept below 1.
template <typename T, typename U>
constexpr T fraction(T x, U below_one) {
    const T result = x - __builtin_floor(x);
    const T limit = std::bit_cast<T>(below_one);
    return result > limit ? limit : result;
}

template <typename U>
bool has_no_exponent(U bits) {
    return is_nan(bits) || static_cast<U>(bits << 1) == 0 ||
           exponent_of(bits) == FloatFormat<U>::kExponentMax;
}

int frexp_exponent(double value) {
    int exponent;
    std::frexp(value, &exponent);
    return exponent;
}

double frexp_mantissa(double value) {
    int exponent;
    return std::frexp(value, &exponent);
}

constexpr OpInfo kRounding[] = {
    row("v_trunc_f64", 23, kF64, kF64, lanes<[](double a) { return __builtin_trunc(a); }>),
    row("v_ceil_f64", 24, kF64, kF64, lanes<[](double a) { return __builtin_ceil(a); }>),
    row("v_rndne_f64", 25, kF64, kF64, lanes<[](double a) { return __builtin_roundeven(a); }>),
    row("v_floor_f64", 26, kF64, kF64, lanes<[](double a) { return __builtin_floor(a); }>),
    row("v_fract_f32", 27, kF32, kF32, lanes<[](float a) { return fraction(a, 0x3f7fffffu); }>),
    row("v_trunc_f32", 28, kF32, kF32, lanes<[](float a) { return __builtin_truncf(a); }>),
    row("v_ceil_f32", 29, kF32, kF32, lanes<[](float a) { return __builtin_ceilf(a); }>),
    row("v_rndne_f32", 30, kF32, kF32, lanes<[](float a) { return __builtin_roundevenf(a); }>),
    row("v_floor_f32", 31, kF32, kF32, lanes<[](float a) { return __builtin_floorf(a); }>),
    row("v_fract_f64", 50, kF64, kF64,
        lanes<[](double a) { return fraction(a, 0x3fefffffffffffffull); }>),
    row("v_floor_f16", 68, kF16, kF16, lanes<[](F16 a) -> F16 { return __builtin_floorf(a); }>),
    row("v_ceil_f16", 69, kF16, kF16, lanes<[](F16 a) -> F16 { return __builtin_ceilf(a); }>),
    row("v_trunc_f16", 70, kF16, kF16, lanes<[](F16 a) -> F16 { return __builtin_truncf(a); }>),
    row("v_rndne_f16", 71, kF16, kF16, lanes<[](F16 a) -> F16 { return __builtin_roundevenf(a); }>),
    row("v_fract_f16", 72, kF16, kF16, lanes<[](F16 a) -> F16 {
            // Largest f16 below 1, as f32.
            return fraction(static_cast<float>(a), 0x3f7fe000u);
        }>),
};

constexpr OpInfo kFrexp[] = {
    row("v_frexp_exp_i32_f64", 48, kB32, kF64, lanes<[](double a) -> int32_t {
            return has_no_exponent(std::bit_cast<uint64_t>(a)) ? 0 : frexp_exponent(a);
        }>),
    row("v_frexp_mant_f64", 49, kF64, kF64, lanes<[](double a) { return frexp_mantissa(a); }>),
    row("v_frexp_exp_i32_f32", 51, kB32, kF32, lanes<[](float a) -> int32_t {
            return has_no_exponent(std::bit_cast<uint32_t>(a)) ? 0 : frexp_exponent(a);
        }>),
    row("v_frexp_mant_f32", 52, kF32, kF32,
        lanes<[](float a) { return static_cast<float>(frexp_mantissa(a)); }>),
    row("v_frexp_mant_f16", 66, kF16, kF16,
        lanes<[](F16 a) -> F16 { return static_cast<float>(frexp_mantissa(a)); }>),
    row("v_frexp_exp_i16_f16", 67, kI16, kF16, lanes<[](F16 a) -> int16_t {
            const float value = a;
            return has_no_exponent(std::bit_cast<uint32_t>(value))
                       ? int16_t{0}
                       : static_cast<int16_t>(frexp_exponent(value));
        }>),
};

constexpr OpInfo kTranscendental[] = {
    trans("v_exp_f32", 32, kF32, lanes<[](float a) { return exp2_f32(a); }, kRoundsItself>, kUlpNote),
    trans("v_log_f32", 33, kF32, lanes<[](float a) { return log2_f32(a); }, kRoundsItself>, kUlpNote),
    trans("v_rcp_f32", 34, kF32, lanes<[](float a) { return rcp_f32(a); }, kRoundsItself>, kUlpNote),
    trans("v_rcp_iflag_f32", 35, kF32, lanes<[](float a) { return rcp_f32(a); }, kRoundsItself>, kUlpNote),
    trans("v_rsq_f32", 36, kF32, lanes<[](float a) { return rsq_f32(a); }, kRoundsItself>, kUlpNote),
    trans("v_rcp_f64", 37, kF64, lanes<[](double a) { return 1.0 / a; }, kRoundsItself>, kSeedNote),
    trans("v_rsq_f64", 38, kF64,
          lanes<[](double a) { return 1.0 / __builtin_sqrt(a); }, kRoundsItself>, kSeedNote),
    trans("v_sqrt_f32", 39, kF32, lanes<[](float a) { return sqrt_f32(a); }, kRoundsItself>, kUlpNote),
    trans("v_sqrt_f64", 40, kF64, lanes<[](double a) { return __builtin_sqrt(a); }, kRoundsItself>, kSeedNote),
    trans("v_sin_f32", 41, kF32,
          lanes<[](float a) { return static_cast<float>(sin_turns(a, false)); }, kRoundsItself>, kTurnsNote),
    trans("v_cos_f32", 42, kF32,
          lanes<[](float a) { return static_cast<float>(sin_turns(a, true)); }, kRoundsItself>, kTurnsNote),
    trans("v_rcp_f16", 61, kF16, lanes<[](F16 a) -> F16 { return 1.0f / a; }, kRoundsItself>, kHalfNote),
    trans("v_sqrt_f16", 62, kF16,
          lanes<[](F16 a) -> F16 { return __builtin_sqrtf(a); }, kRoundsItself>, kHalfNote),
    trans("v_rsq_f16", 63, kF16, lanes<[](F16 a) -> F16 { return rsq_f32(a); }, kRoundsItself>, kHalfNote),
    trans("v_log_f16", 64, kF16, lanes<[](F16 a) -> F16 { return log2_f32(a); }, kRoundsItself>, kHalfNote),
    trans("v_exp_f16", 65, kF16, lanes<[](F16 a) -> F16 { return exp2_f32(a); }, kRoundsItself>, kHalfNote),
    trans("v_sin_f16", 73, kF16,
          lanes<[](F16 a) -> F16 { return static_cast<float>(sin_turns(a.value, false)); },
                kRoundsItself>, kTurnsNote),
    trans("v_cos_f16", 74, kF16,
          lanes<[](F16 a) -> F16 { return static_cast<float>(sin_turns(a.value, true)); },
                kRoundsItself>, kTurnsNote),
    trans("v_exp_legacy_f32", 75, kF32, lanes<[](float a) { return exp2_f32(a); }, kRoundsItself>, kLegacyNote),
    trans("v_log_legacy_f32", 76, kF32, lanes<[](float a) { return log2_f32(a); }, kRoundsItself>, kLegacyNote),
};

}  // namespace

std::span<const OpInfo> vop1_float_ops() {
    static const std::vector<OpInfo> table = join_tables({kRounding, kFrexp, kTranscendental});
    return table;
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
