// Conversions from and to FP8, BF8 (FNUZ on gfx942, OCP on gfx950) and FP4.
#include <algorithm>
#include <string>

#include "exec/vector/lanes.h"
#include "exec/vector/small_float.h"
#include "exec/vector/tables.h"

namespace asmevo::emulator {

namespace {

using enum Type;

template <SmallFormat Format>
constexpr auto decode_byte = [](uint32_t a) { return kDecodeTable<Format>[a & 0xff]; };

template <SmallFormat Format>
constexpr auto decode_pair = [](uint32_t a) -> uint64_t {
    const uint64_t high = std::bit_cast<uint32_t>(kDecodeTable<Format>[a >> 8 & 0xff]);
    return high << 32 | std::bit_cast<uint32_t>(kDecodeTable<Format>[a & 0xff]);
};

// Overflow follows MODE.FP16_OVFL: the largest number when set, otherwise infinity or NaN. What a set bit does
// to an infinite source is not published, so that is refused.
template <SmallFormat Format>
uint32_t encode(LaneEnv env, float value, int lane) {
    const uint32_t sign = std::signbit(value) ? Format.sign() : 0;
    const uint32_t nan = Format.is_fnuz ? Format.sign() : 0x7fu | sign;
    if (std::isnan(value)) {
        return nan;
    }
    if (std::isinf(value) && env.fp16_overflow()) {
        throw Fault("conversion of infinity to an 8-bit float under FP16_OVFL is not implemented", lane);
    }
    const uint32_t magnitude = std::isinf(value) ? 0xff : round_magnitude(Format, value);
    if (magnitude > Format.largest) {
        if (env.fp16_overflow()) {
            return Format.largest | sign;
        }
        return Format.has_infinity ? (Format.largest + 1u) | sign : nan;
    }
    return magnitude == 0 && Format.is_fnuz ? 0 : magnitude | sign;
}

void place_field(uint32_t* lanes, const uint32_t* old, uint32_t shift, uint32_t mask) {
    for (int lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = (old[lane] & ~(mask << shift)) | (lanes[lane] & mask) << shift;
    }
}

void refuse_modifiers(const Inst& inst) {
    if (inst.clamp || inst.omod != 0) {
        throw Fault(std::string("output modifiers of ") + inst.info->name + " are not implemented");
    }
}

// Inactive lanes must not raise faults: their registers may hold anything.
template <SmallFormat Format>
void encode_pair(Wave& wave, const Inst& inst) {
    refuse_modifiers(inst);
    Scratch scratch[2];
    const Source a = fetch<kPlain>(wave, inst, 0, scratch[0]);
    const Source b = fetch<kPlain>(wave, inst, 1, scratch[1]);
    const uint64_t mask = write_mask(wave, inst);
    const LaneEnv env{wave.mode};
    alignas(64) uint32_t result[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
        if ((mask >> lane & 1) != 0) {
            result[lane] = encode<Format>(env, std::bit_cast<float>(a.low[lane]), lane) |
                           encode<Format>(env, std::bit_cast<float>(b.low[lane]), lane) << 8;
        }
    }
    Scratch old;
    place_field(result, fetch_accumulator(wave, inst, kNoFlush, old).low, (inst.op_sel & 8) != 0 ? 16 : 0,
                0xffff);
    store_dword(wave, inst, result);
}

// Power of two that an f32 scale stands for: only its exponent counts (E8M0).
double scale_factor(uint32_t bits) {
    const int exponent = static_cast<int>(bits >> 23 & 0xff);
    return exponent == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, exponent - 127);
}

enum class Wide { kF32, kF16, kBf16 };

template <Wide Kind>
uint32_t encode_wide(LaneEnv env, double value) {
    const float single = static_cast<float>(value);
    if constexpr (Kind == Wide::kF32) {
        return std::bit_cast<uint32_t>(single);
    } else if constexpr (Kind == Wide::kBf16) {
        return f32_to_bf16(single);
    } else {
        const float limit = env.fp16_overflow() && std::isfinite(single) ? 65504.0f : INFINITY;
        return f32_to_f16(std::clamp(single, -limit, limit));
    }
}

// v_cvt_scalef32_pk_*: two small floats of the op_sel word (or byte, for FP4), times the scale in S1.
template <SmallFormat Format, Wide Kind>
void decode_scaled_pair(Wave& wave, const Inst& inst) {
    refuse_modifiers(inst);
    Inst plain = inst;
    plain.src[0].op_sel = plain.src[1].op_sel = false;
    Scratch scratch[2];
    const Source source = fetch<kNoFlush>(wave, plain, 0, scratch[0]);
    const Source scale = fetch<kNoFlush>(wave, plain, 1, scratch[1]);
    const unsigned width = static_cast<unsigned>(Format.width());
    const unsigned shift = Format.width() == 4 ? 8u * (inst.op_sel & 3u) : 16u * (inst.op_sel & 1u);
    const uint32_t code_mask = (1u << width) - 1;
    detail::Result result;
    for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t codes = source.low[lane] >> shift;
        const double factor = scale_factor(scale.low[lane]);
        const uint32_t low =
            encode_wide<Kind>(LaneEnv{wave.mode}, kDecodeTable<Format>[codes & code_mask] * factor);
        const uint32_t high = encode_wide<Kind>(
            LaneEnv{wave.mode}, kDecodeTable<Format>[codes >> width & code_mask] * factor);
        result.low[lane] = Kind == Wide::kF32 ? low : low | high << 16;
        result.high[lane] = high;
    }
    if constexpr (Kind == Wide::kF32) {
        store_qword(wave, inst, result.low, result.high);
    } else {
        store_dword(wave, inst, result.low);
    }
}

// v_cvt_scalef32_f32_* and _f16_*: the small float in the op_sel byte, times the scale in S1. An f16 result goes
// to the half that op_sel[3] names; the other half stays.
template <SmallFormat Format, Wide Kind>
void decode_scaled(Wave& wave, const Inst& inst) {
    refuse_modifiers(inst);
    Inst plain = inst;
    plain.src[0].op_sel = plain.src[1].op_sel = false;
    Scratch scratch[2];
    const Source source = fetch<kNoFlush>(wave, plain, 0, scratch[0]);
    const Source scale = fetch<kNoFlush>(wave, plain, 1, scratch[1]);
    const unsigned shift = 8u * (inst.op_sel & 3u);
    alignas(64) uint32_t result[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        const float value = kDecodeTable<Format>[source.low[lane] >> shift & 0xff];
        result[lane] = encode_wide<Kind>(LaneEnv{wave.mode}, value * scale_factor(scale.low[lane]));
    }
    if constexpr (Kind == Wide::kF32) {
        store_dword(wave, inst, result);
    } else {
        store_half(wave, inst, result, true);
    }
}

// FP4 has no NaN and no infinity: everything beyond its range saturates; a NaN source is refused.
uint32_t encode_fp4(double value, int lane) {
    if (std::isnan(value)) {
        throw Fault("conversion of NaN to FP4 is not implemented", lane);
    }
    const uint32_t sign = std::signbit(value) ? kFp4.sign() : 0;
    const uint32_t magnitude =
        std::isinf(value) ? kFp4.largest : std::min<uint32_t>(round_magnitude(kFp4, value), kFp4.largest);
    return magnitude | sign;
}

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

// v_cvt_scalef32_pk_fp4_*: two values divided by the scale, into the op_sel byte of the destination.
template <Wide Kind>
void encode_scaled_fp4(Wave& wave, const Inst& inst) {
    refuse_modifiers(inst);
    constexpr int kScaleIndex = Kind == Wide::kF32 ? 2 : 1;
    Inst plain = inst;
    for (int i = 0; i <= kScaleIndex; ++i) {
        plain.src[i].op_sel = false;
    }
    Scratch scratch[3];
    const Source a = fetch<kNoFlush>(wave, plain, 0, scratch[0]);
    const Source b = Kind == Wide::kF32 ? fetch<kNoFlush>(wave, plain, 1, scratch[1]) : a;
    const Source scale = fetch<kNoFlush>(wave, plain, kScaleIndex, scratch[2]);
    const uint64_t mask = write_mask(wave, inst);
    alignas(64) uint32_t result[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
        if ((mask >> lane & 1) != 0) {
            const uint32_t second = Kind == Wide::kF32 ? b.low[lane] : a.low[lane] >> 16;
            const double factor = scale_factor(scale.low[lane]);
            result[lane] = encode_fp4(widen<Kind>(a.low[lane]) / factor, lane) |
                           encode_fp4(widen<Kind>(second) / factor, lane) << 4;
        }
    }
    Scratch old;
    place_field(result, fetch_accumulator(wave, inst, kNoFlush, old).low,
                8u * (inst.op_sel >> 2 & 3u), 0xff);
    store_dword(wave, inst, result);
}

constexpr OpInfo vop1(const char* name, uint16_t opcode, Type dst, Handler run, TargetMask targets) {
    return vector_row(name, Encoding::kVop1, opcode, dst, {kB32}, run, kNoFlags, targets);
}

constexpr OpInfo vop3(const char* name, uint16_t opcode, Type dst, std::initializer_list<Type> sources,
                      Handler run, TargetMask targets, uint32_t flags = kNoFlags) {
    return vector_row(name, Encoding::kVop3, opcode, dst, sources, run, flags, targets);
}

constexpr OpInfo kVop1[] = {
    vop1("v_cvt_f32_fp8", 84, kF32, lanes<decode_byte<kFp8Fnuz>, kRoundsItself>, kGfx942Bit),
    vop1("v_cvt_f32_fp8", 84, kF32, lanes<decode_byte<kFp8Ocp>, kRoundsItself>, kGfx950Bit),
    vop1("v_cvt_f32_bf8", 85, kF32, lanes<decode_byte<kBf8Fnuz>, kRoundsItself>, kGfx942Bit),
    vop1("v_cvt_f32_bf8", 85, kF32, lanes<decode_byte<kBf8Ocp>, kRoundsItself>, kGfx950Bit),
    vop1("v_cvt_pk_f32_fp8", 86, kPkF32, lanes<decode_pair<kFp8Fnuz>>, kGfx942Bit),
    vop1("v_cvt_pk_f32_fp8", 86, kPkF32, lanes<decode_pair<kFp8Ocp>>, kGfx950Bit),
    vop1("v_cvt_pk_f32_bf8", 87, kPkF32, lanes<decode_pair<kBf8Fnuz>>, kGfx942Bit),
    vop1("v_cvt_pk_f32_bf8", 87, kPkF32, lanes<decode_pair<kBf8Ocp>>, kGfx950Bit),
};

constexpr OpInfo kVop3[] = {
    vop3("v_cvt_pk_fp8_f32", 0x2a2, kB32, {kF32, kF32}, encode_pair<kFp8Fnuz>, kGfx942Bit, kDstIsRead),
    vop3("v_cvt_pk_fp8_f32", 0x2a2, kB32, {kF32, kF32}, encode_pair<kFp8Ocp>, kGfx950Bit, kDstIsRead),
    vop3("v_cvt_pk_bf8_f32", 0x2a3, kB32, {kF32, kF32}, encode_pair<kBf8Fnuz>, kGfx942Bit, kDstIsRead),
    vop3("v_cvt_pk_bf8_f32", 0x2a3, kB32, {kF32, kF32}, encode_pair<kBf8Ocp>, kGfx950Bit, kDstIsRead),
    vop3("v_cvt_scalef32_pk_f32_fp8", 569, kPkF32, {kB32, kB32},
         decode_scaled_pair<kFp8Ocp, Wide::kF32>, kGfx950Bit),
    vop3("v_cvt_scalef32_pk_f32_bf8", 570, kPkF32, {kB32, kB32},
         decode_scaled_pair<kBf8Ocp, Wide::kF32>, kGfx950Bit),
    vop3("v_cvt_scalef32_f32_fp8", 571, kF32, {kB32, kB32}, decode_scaled<kFp8Ocp, Wide::kF32>,
         kGfx950Bit),
    vop3("v_cvt_scalef32_f32_bf8", 572, kF32, {kB32, kB32}, decode_scaled<kBf8Ocp, Wide::kF32>,
         kGfx950Bit),
    vop3("v_cvt_scalef32_f16_fp8", 586, kF16, {kB32, kB32}, decode_scaled<kFp8Ocp, Wide::kF16>,
         kGfx950Bit, kDstIsRead),
    vop3("v_cvt_scalef32_f16_bf8", 587, kF16, {kB32, kB32}, decode_scaled<kBf8Ocp, Wide::kF16>,
         kGfx950Bit, kDstIsRead),
    vop3("v_cvt_scalef32_pk_fp4_f32", 573, kB32, {kB32, kB32, kB32}, encode_scaled_fp4<Wide::kF32>,
         kGfx950Bit, kDstIsRead),
    vop3("v_cvt_scalef32_pk_f32_fp4", 575, kPkF32, {kB32, kB32},
         decode_scaled_pair<kFp4, Wide::kF32>, kGfx950Bit),
    vop3("v_cvt_scalef32_pk_f16_fp8", 584, kPkF16, {kB32, kB32},
         decode_scaled_pair<kFp8Ocp, Wide::kF16>, kGfx950Bit),
    vop3("v_cvt_scalef32_pk_f16_bf8", 585, kPkF16, {kB32, kB32},
         decode_scaled_pair<kBf8Ocp, Wide::kF16>, kGfx950Bit),
    vop3("v_cvt_scalef32_pk_fp4_f16", 588, kB32, {kPkF16, kB32}, encode_scaled_fp4<Wide::kF16>,
         kGfx950Bit, kDstIsRead),
    vop3("v_cvt_scalef32_pk_fp4_bf16", 589, kB32, {kPkBf16, kB32}, encode_scaled_fp4<Wide::kBf16>,
         kGfx950Bit, kDstIsRead),
    vop3("v_cvt_scalef32_pk_f16_fp4", 592, kPkF16, {kB32, kB32},
         decode_scaled_pair<kFp4, Wide::kF16>, kGfx950Bit),
    vop3("v_cvt_scalef32_pk_bf16_fp4", 593, kPkBf16, {kB32, kB32},
         decode_scaled_pair<kFp4, Wide::kBf16>, kGfx950Bit),
    vop3("v_cvt_scalef32_pk_bf16_fp8", 617, kPkBf16, {kB32, kB32},
         decode_scaled_pair<kFp8Ocp, Wide::kBf16>, kGfx950Bit),
    vop3("v_cvt_scalef32_pk_bf16_bf8", 618, kPkBf16, {kB32, kB32},
         decode_scaled_pair<kBf8Ocp, Wide::kBf16>, kGfx950Bit),
};

}  // namespace

std::span<const OpInfo> vop1_fp8_ops() { return kVop1; }
std::span<const OpInfo> vop3_fp8_ops() { return kVop3; }

}  // namespace asmevo::emulator
