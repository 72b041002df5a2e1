// VOP2 and its VOP3 forms: two-source arithmetic, logic and shifts. Carry operations: carry.cpp.
#include "exec/vector/float_bits.h"
#include "exec/vector/integer.h"
#include "exec/vector/tables.h"
#include "isa/tables.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

namespace {

using enum Type;

constexpr OpInfo row(const char* name, uint16_t opcode, Type dst, std::initializer_list<Type> sources,
                     Handler run, uint32_t flags = kNoFlags, TargetMask targets = kAllTargets) {
    return vector_row(name, Encoding::kVop2, opcode, dst, sources, run, flags, targets);
}

// v_cndmask: the mask is src[2].
void select_by_mask(Wave& wave, const Inst& inst) {
    Scratch scratch[2];
    const Source off = fetch<kNoFlush>(wave, inst, 0, scratch[0]);
    const Source on = fetch<kNoFlush>(wave, inst, 1, scratch[1]);
    alignas(64) uint32_t result[kLanes];
    const bool in_place = writes_register_as_is(wave, inst, true);
    uint32_t* to = in_place ? wave.lanes(inst.dst[0].index) : result;
    select_lanes(read_mask(wave, inst.src[2]), on.low, off.low, to);
    if (!in_place) {
        store_dword(wave, inst, result);
    }
}

bool any_nan(const uint32_t* a, const uint32_t* b) {
    uint32_t found = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        found |= (is_nan(a[lane]) ? 1u : 0u) | (is_nan(b[lane]) ? 1u : 0u);
    }
    return found != 0;
}

// v_min_f32, v_max_f32. The rules for NaNs cost more than the operation, and few waves hold one.
template <auto WithoutNan, auto General>
void minimum_or_maximum(Wave& wave, const Inst& inst) {
    Scratch scratch[2];
    Source sources[2];
    detail::fetch_all<General, kPlain>(wave, inst, sources, scratch);
    any_nan(sources[0].low, sources[1].low) ? detail::run_lanes<General, kPlain>(wave, inst)
                                            : detail::run_lanes<WithoutNan, kPlain>(wave, inst);
}

// Of equal floats with different bits, which are zeros, AND is the positive one and OR the negative one.
constexpr auto larger_number = [](float a, float b) {
    const uint32_t equal = std::bit_cast<uint32_t>(a) & std::bit_cast<uint32_t>(b);
    return a > b ? a : a < b ? b : std::bit_cast<float>(equal);
};
constexpr auto smaller_number = [](float a, float b) {
    const uint32_t equal = std::bit_cast<uint32_t>(a) | std::bit_cast<uint32_t>(b);
    return a < b ? a : a > b ? b : std::bit_cast<float>(equal);
};

constexpr OpInfo kFloat[] = {
    row("v_cndmask_b32", 0, kB32, {kB32, kB32, kMask}, select_by_mask),
    row("v_add_f32", 1, kF32, {kF32, kF32}, lanes<[](float a, float b) { return a + b; }>),
    row("v_sub_f32", 2, kF32, {kF32, kF32}, lanes<[](float a, float b) { return a - b; }>),
    row("v_subrev_f32", 3, kF32, {kF32, kF32}, lanes<[](float a, float b) { return b - a; }>),
    row("v_fmac_f64", 4, kF64, {kF64, kF64},
        lanes<[](double a, double b, double c) { return __builtin_fma(a, b, c); }, kAccumulates>,
        kDstIsRead),
    row("v_mul_f32", 5, kF32, {kF32, kF32}, lanes<[](float a, float b) { return a * b; }>),
    row("v_min_f32", 10, kF32, {kF32, kF32}, minimum_or_maximum<smaller_number, [](LaneEnv env, uint32_t a, uint32_t b) {
            return min_float(env, a, b);
        }>),
    row("v_max_f32", 11, kF32, {kF32, kF32}, minimum_or_maximum<larger_number, [](LaneEnv env, uint32_t a, uint32_t b) {
            return max_float(env, a, b);
        }>),
    row("v_mac_f32", 22, kF32, {kF32, kF32},
        lanes<[](float a, float b, float c) { return mad_flushing(a, b, c); }, kAccumulates>,
        kDstIsRead, kGfx90aBit),
    row("v_madmk_f32", 23, kF32, {kF32, kF32, kF32},
        lanes<[](float a, float k, float b) { return mad_flushing(a, k, b); }>,
        kLiteralK | kNoVop3, kGfx90aBit),
    row("v_madak_f32", 24, kF32, {kF32, kF32, kF32},
        lanes<[](float a, float b, float k) { return mad_flushing(a, b, k); }>,
        kLiteralK | kNoVop3, kGfx90aBit),
    row("v_fmamk_f32", 23, kF32, {kF32, kF32, kF32},
        lanes<[](float a, float k, float b) { return __builtin_fmaf(a, k, b); }>,
        kLiteralK | kNoVop3, kGfx940Plus),
    row("v_fmaak_f32", 24, kF32, {kF32, kF32, kF32},
        lanes<[](float a, float b, float k) { return __builtin_fmaf(a, b, k); }>,
        kLiteralK | kNoVop3, kGfx940Plus),
    row("v_fmac_f32", 59, kF32, {kF32, kF32},
        lanes<[](float a, float b, float c) { return __builtin_fmaf(a, b, c); }, kAccumulates>,
        kDstIsRead),
};

constexpr OpInfo kHalf[] = {
    row("v_add_f16", 31, kF16, {kF16, kF16}, lanes<[](F16 a, F16 b) -> F16 { return a + b; }>),
    row("v_sub_f16", 32, kF16, {kF16, kF16}, lanes<[](F16 a, F16 b) -> F16 { return a - b; }>),
    row("v_subrev_f16", 33, kF16, {kF16, kF16}, lanes<[](F16 a, F16 b) -> F16 { return b - a; }>),
    row("v_mul_f16", 34, kF16, {kF16, kF16}, lanes<[](F16 a, F16 b) -> F16 { return a * b; }>),
    approximate(row("v_mac_f16", 35, kF16, {kF16, kF16},
                    lanes<[](F16 a, F16 b, F16 c) { return mad_flushing_f16(a, b, c); }, kAccumulates>, kDstIsRead),
                kMadF16Note),
    approximate(row("v_madmk_f16", 36, kF16, {kF16, kF16, kF16},
                    lanes<[](F16 a, F16 k, F16 b) { return mad_flushing_f16(a, k, b); }>, kLiteralK | kNoVop3),
                kMadF16Note),
    approximate(row("v_madak_f16", 37, kF16, {kF16, kF16, kF16},
                    lanes<[](F16 a, F16 b, F16 k) { return mad_flushing_f16(a, b, k); }>, kLiteralK | kNoVop3),
                kMadF16Note),
    row("v_max_f16", 45, kF16, {kF16, kF16}, lanes<[](LaneEnv env, uint16_t a, uint16_t b) {
            return max_float(env, a, b);
        }>),
    row("v_min_f16", 46, kF16, {kF16, kF16}, lanes<[](LaneEnv env, uint16_t a, uint16_t b) {
            return min_float(env, a, b);
        }>),
    row("v_ldexp_f16", 51, kF16, {kF16, kI16},
        lanes<[](F16 a, int16_t exponent) { return scale_f16(a, exponent); }>),
    row("v_pk_fmac_f16", 60, kPkF16, {kPkF16, kPkF16},
        packed<[](F16 a, F16 b, F16 c) -> F16 { return fma_for_f16(a, b, c); }, kAccumulates>,
        kDstIsRead),
};

constexpr OpInfo kInteger[] = {
    row("v_mul_i32_i24", 6, kB32, {kB32, kB32}, lanes<[](uint32_t a, uint32_t b) {
            return static_cast<uint32_t>(sext24(a)) * static_cast<uint32_t>(sext24(b));
        }>),
    row("v_mul_hi_i32_i24", 7, kB32, {kB32, kB32}, lanes<[](uint32_t a, uint32_t b) {
            return static_cast<int32_t>((int64_t{sext24(a)} * sext24(b)) >> 32);
        }>),
    row("v_mul_u32_u24", 8, kB32, {kB32, kB32},
        lanes<[](uint32_t a, uint32_t b) { return low24(a) * low24(b); }>),
    row("v_mul_hi_u32_u24", 9, kB32, {kB32, kB32}, lanes<[](uint32_t a, uint32_t b) {
            return static_cast<uint32_t>((uint64_t{low24(a)} * low24(b)) >> 32);
        }>),
    row("v_min_i32", 12, kB32, {kB32, kB32}, lanes<[](int32_t a, int32_t b) { return a < b ? a : b; }>),
    row("v_max_i32", 13, kB32, {kB32, kB32}, lanes<[](int32_t a, int32_t b) { return b < a ? a : b; }>),
    row("v_min_u32", 14, kB32, {kB32, kB32},
        lanes<[](uint32_t a, uint32_t b) { return a < b ? a : b; }>),
    row("v_max_u32", 15, kB32, {kB32, kB32},
        lanes<[](uint32_t a, uint32_t b) { return b < a ? a : b; }>),
    row("v_lshrrev_b32", 16, kB32, {kB32, kB32},
        lanes<[](uint32_t shift, uint32_t a) { return (a >> (shift & 31)); }>),
    row("v_ashrrev_i32", 17, kB32, {kB32, kB32},
        lanes<[](uint32_t shift, int32_t a) { return (a >> (shift & 31)); }>),
    row("v_lshlrev_b32", 18, kB32, {kB32, kB32},
        lanes<[](uint32_t shift, uint32_t a) { return a << (shift & 31); }>),
    row("v_and_b32", 19, kB32, {kB32, kB32}, lanes<[](uint32_t a, uint32_t b) { return a & b; }>),
    row("v_or_b32", 20, kB32, {kB32, kB32}, lanes<[](uint32_t a, uint32_t b) { return a | b; }>),
    row("v_xor_b32", 21, kB32, {kB32, kB32}, lanes<[](uint32_t a, uint32_t b) { return a ^ b; }>),
    row("v_xnor_b32", 61, kB32, {kB32, kB32}, lanes<[](uint32_t a, uint32_t b) { return ~(a ^ b); }>),
    row("v_add_u32", 52, kB32, {kB32, kB32},
        clampable<[](uint32_t a, uint32_t b) { return a + b; }, add_sat<uint32_t>>),
    row("v_sub_u32", 53, kB32, {kB32, kB32},
        clampable<[](uint32_t a, uint32_t b) { return a - b; }, sub_sat<uint32_t>>),
    row("v_subrev_u32", 54, kB32, {kB32, kB32},
        clampable<[](uint32_t a, uint32_t b) { return b - a; }, subrev_sat<uint32_t>>),
    row("v_add_u16", 38, kI16, {kI16, kI16},
        clampable<[](uint16_t a, uint16_t b) { return wrap16(a + b); }, add_sat<uint16_t>>),
    row("v_sub_u16", 39, kI16, {kI16, kI16},
        clampable<[](uint16_t a, uint16_t b) { return wrap16(a - b); }, sub_sat<uint16_t>>),
    row("v_subrev_u16", 40, kI16, {kI16, kI16},
        clampable<[](uint16_t a, uint16_t b) { return wrap16(b - a); }, subrev_sat<uint16_t>>),
    row("v_mul_lo_u16", 41, kI16, {kI16, kI16},
        lanes<[](uint16_t a, uint16_t b) { return wrap16(uint32_t{a} * b); }>),
    row("v_lshlrev_b16", 42, kI16, {kI16, kI16},
        lanes<[](uint16_t shift, uint16_t a) { return wrap16(uint32_t{a} << (shift & 15)); }>),
    row("v_lshrrev_b16", 43, kI16, {kI16, kI16},
        lanes<[](uint16_t shift, uint16_t a) { return wrap16(a >> (shift & 15)); }>),
    row("v_ashrrev_i16", 44, kI16, {kI16, kI16},
        lanes<[](uint16_t shift, int16_t a) { return wrap16(a >> (shift & 15)); }>),
    row("v_max_u16", 47, kI16, {kI16, kI16},
        lanes<[](uint16_t a, uint16_t b) { return b < a ? a : b; }>),
    row("v_max_i16", 48, kI16, {kI16, kI16}, lanes<[](int16_t a, int16_t b) { return b < a ? a : b; }>),
    row("v_min_u16", 49, kI16, {kI16, kI16},
        lanes<[](uint16_t a, uint16_t b) { return a < b ? a : b; }>),
    row("v_min_i16", 50, kI16, {kI16, kI16}, lanes<[](int16_t a, int16_t b) { return a < b ? a : b; }>),
};

}  // namespace

std::span<const OpInfo> vop2_rows() {
    static const std::vector<OpInfo> table =
        join_tables({kFloat, kHalf, kInteger, vop2_carry_ops(), vop2_dot_ops()});
    return table;
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
