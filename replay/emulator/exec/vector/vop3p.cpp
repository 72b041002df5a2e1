// VOP3P: packed 16-bit arithmetic, packed f32, mixed-precision multiply-add. Dot products: dot.cpp.
#include <cstring>
#include <string>

#include "exec/vector/float_bits.h"
#include "exec/vector/integer.h"
#include "exec/vector/tables.h"
#include "isa/tables.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

namespace {

using enum Type;

constexpr OpInfo row(const char* name, uint16_t opcode, Type type, int sources, Handler run,
                     TargetMask targets = kAllTargets) {
    OpInfo info = vector_row(name, Encoding::kVop3p, opcode, type, {}, run, kPackedModifiers, targets);
    for (int i = 0; i < sources; ++i) {
        info.src[i] = type;
    }
    return info;
}

// Source of v_fma_mix: op_sel_hi makes it f16, op_sel picks the half.
void load_mixed(const Wave& wave, const Inst& inst, int index, uint32_t* out) {
    Inst plain = inst;
    Operand& operand = plain.src[index];
    const Operand& original = inst.src[index];
    operand.op_sel = operand.neg = operand.abs = false;
    operand.type = kB32;
    Scratch scratch;
    const Source source = fetch<kNoFlush>(wave, plain, index, scratch);
    std::memcpy(out, source.low, sizeof(LaneArray));
    if (original.op_sel_hi) {
        for (int lane = 0; lane < kLanes; ++lane) {
            out[lane] = original.op_sel ? out[lane] >> 16 : out[lane];
        }
        widen_f16(out, out);
    }
    const uint32_t keep = original.abs ? 0x7fffffffu : ~0u, flip = original.neg ? 0x80000000u : 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        out[lane] = (out[lane] & keep) ^ flip;
    }
}

enum class MixResult { kSingle, kLowHalf, kHighHalf };

template <MixResult Kind>
[[gnu::noinline]] void fma_mix_lanes(Wave& wave, const Inst& inst) {
    LaneArray in[3];
    Source sources[3];
    for (int i = 0; i < 3; ++i) {
        load_mixed(wave, inst, i, in[i].lane);
        sources[i] = {in[i].lane, nullptr};
    }
    constexpr auto fused = [](float a, float b, float c) { return __builtin_fmaf(a, b, c); };
    detail::Result result;
    detail::compute<fused>(sources, result, LaneEnv{wave.mode});
    if constexpr (Kind == MixResult::kSingle) {
        detail::store<float, kPlain>(wave, inst, result);
        return;
    }
    if (LaneEnv{wave.mode}.fp16_overflow()) {
        detail::limit_f16(result.low);
    }
    narrow_f16(result.low);
    if (needs_finish(wave, inst)) {
        finish_result(wave, inst, result.low, result.high);
    }
    Inst half = inst;
    half.op_sel = Kind == MixResult::kHighHalf ? 8 : 0;
    store_half(wave, half, result.low, true);
}

// Denormal flushing of sources is by their own width; only the default mode, which keeps all, is implemented.
template <MixResult Kind>
void fma_mix(Wave& wave, const Inst& inst) {
    if ((wave.mode & kModeDenormAll) != kModeDenormAll) {
        throw Fault(std::string(inst.info->name) + " with denormal flushing is not implemented");
    }
    constexpr auto types = [](float a) { return a; };
    detail::run_rounded<types, kPlain, &fma_mix_lanes<Kind>>(wave, inst);
}

constexpr OpInfo mix(const char* name, uint16_t opcode, Type dst, Handler run, uint32_t flags) {
    return vector_row(name, Encoding::kVop3p, opcode, dst, {kF32, kF32, kF32}, run,
                      kPackedModifiers | flags);
}

// v_pk_mov_b32: the low result is a dword of S0, the high one a dword of S1.
void move_pair(Wave& wave, const Inst& inst) {
    Inst plain = inst;
    bool second[2];
    for (int i = 0; i < 2; ++i) {
        second[i] = plain.src[i].op_sel;
        plain.src[i].op_sel = false;
        plain.src[i].op_sel_hi = true;
    }
    Scratch scratch[2];
    const Source a = fetch<kPacked | kNoFlush>(wave, plain, 0, scratch[0]);
    const Source b = fetch<kPacked | kNoFlush>(wave, plain, 1, scratch[1]);
    LaneArray low, high;
    std::memcpy(&low, second[0] ? a.high : a.low, sizeof low);
    std::memcpy(&high, second[1] ? b.high : b.low, sizeof high);
    store_qword(wave, inst, low.lane, high.lane);
}

constexpr OpInfo kIntegerRows[] = {
    row("v_pk_mad_i16", 0, kPkI16, 3, packed_clampable<[](int16_t a, int16_t b, int16_t c) {
            return static_cast<int16_t>(a * b + c);
        }, [](int16_t a, int16_t b, int16_t c) { return saturate<int16_t>(a * b + c); }>),
    row("v_pk_mul_lo_u16", 1, kPkI16, 2,
        packed<[](uint16_t a, uint16_t b) { return wrap16(uint32_t{a} * b); }>),
    row("v_pk_add_i16", 2, kPkI16, 2, packed_clampable<[](int16_t a, int16_t b) {
            return static_cast<int16_t>(a + b);
        }, add_sat<int16_t>>),
    row("v_pk_sub_i16", 3, kPkI16, 2, packed_clampable<[](int16_t a, int16_t b) {
            return static_cast<int16_t>(a - b);
        }, sub_sat<int16_t>>),
    row("v_pk_lshlrev_b16", 4, kPkI16, 2,
        packed<[](uint16_t shift, uint16_t a) { return wrap16(uint32_t{a} << (shift & 15)); }>),
    row("v_pk_lshrrev_b16", 5, kPkI16, 2,
        packed<[](uint16_t shift, uint16_t a) { return wrap16(a >> (shift & 15)); }>),
    row("v_pk_ashrrev_i16", 6, kPkI16, 2, packed<[](uint16_t shift, int16_t a) {
            return static_cast<int16_t>(a >> (shift & 15));
        }>),
    row("v_pk_max_i16", 7, kPkI16, 2, packed<[](int16_t a, int16_t b) { return a < b ? b : a; }>),
    row("v_pk_min_i16", 8, kPkI16, 2, packed<[](int16_t a, int16_t b) { return a < b ? a : b; }>),
    row("v_pk_mad_u16", 9, kPkI16, 3, packed_clampable<[](uint16_t a, uint16_t b, uint16_t c) {
            return wrap16(uint32_t{a} * b + c);
        }, [](uint16_t a, uint16_t b, uint16_t c) { return saturate<uint16_t>(int64_t{a} * b + c); }>),
    row("v_pk_add_u16", 10, kPkI16, 2, packed_clampable<[](uint16_t a, uint16_t b) {
            return wrap16(a + b);
        }, add_sat<uint16_t>>),
    row("v_pk_sub_u16", 11, kPkI16, 2, packed_clampable<[](uint16_t a, uint16_t b) {
            return wrap16(a - b);
        }, sub_sat<uint16_t>>),
    row("v_pk_max_u16", 12, kPkI16, 2, packed<[](uint16_t a, uint16_t b) { return a < b ? b : a; }>),
    row("v_pk_min_u16", 13, kPkI16, 2, packed<[](uint16_t a, uint16_t b) { return a < b ? a : b; }>),
};

constexpr OpInfo kFloatRows[] = {
    row("v_pk_fma_f16", 14, kPkF16, 3,
        packed<[](F16 a, F16 b, F16 c) -> F16 { return fma_for_f16(a, b, c); }>),
    row("v_pk_add_f16", 15, kPkF16, 2, packed<[](F16 a, F16 b) -> F16 { return a + b; }>),
    row("v_pk_mul_f16", 16, kPkF16, 2, packed<[](F16 a, F16 b) -> F16 { return a * b; }>),
    row("v_pk_min_f16", 17, kPkF16, 2, packed<[](LaneEnv env, uint16_t a, uint16_t b) {
            return min_float(env, a, b);
        }>),
    row("v_pk_max_f16", 18, kPkF16, 2, packed<[](LaneEnv env, uint16_t a, uint16_t b) {
            return max_float(env, a, b);
        }>),
    row("v_pk_minimum3_f16", 27, kPkF16, 3, packed<[](uint16_t a, uint16_t b, uint16_t c) {
            return minimum_float(minimum_float(a, b), c);
        }>, kGfx950Bit),
    row("v_pk_maximum3_f16", 28, kPkF16, 3, packed<[](uint16_t a, uint16_t b, uint16_t c) {
            return maximum_float(maximum_float(a, b), c);
        }>, kGfx950Bit),
    mix("v_fma_mix_f32", 32, kF32, fma_mix<MixResult::kSingle>, kNoFlags),
    mix("v_fma_mixlo_f16", 33, kF16, fma_mix<MixResult::kLowHalf>, kDstIsRead),
    mix("v_fma_mixhi_f16", 34, kF16, fma_mix<MixResult::kHighHalf>, kDstIsRead),
    row("v_pk_fma_f32", 48, kPkF32, 3,
        paired<[](float a, float b, float c) { return __builtin_fmaf(a, b, c); }>),
    row("v_pk_mul_f32", 49, kPkF32, 2, paired<[](float a, float b) { return a * b; }>),
    row("v_pk_add_f32", 50, kPkF32, 2, paired<[](float a, float b) { return a + b; }>),
    row("v_pk_mov_b32", 51, kB64, 2, move_pair),
};

}  // namespace

std::span<const OpInfo> vop3p_rows() {
    static const std::vector<OpInfo> table = join_tables({kIntegerRows, kFloatRows, vop3p_dot_ops()});
    return table;
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
