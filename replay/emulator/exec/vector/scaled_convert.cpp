// gfx950's scaled conversions of one or two elements (v_cvt_scalef32_*): a value is multiplied (from a small format)
// or divided (to one) by the power of two that the exponent of an f32 scale names. Those of 32 elements:
// scaled_convert32.cpp. Operand and op_sel use: CDNA4 ISA, pseudocode of each V_CVT_SCALEF32_*.
#include "exec/vector/small_convert.h"
#include "exec/vector/tables.h"

namespace asmevo::emulator {

namespace {

using enum Type;

template <Wide Kind>
constexpr Type wide_type() {
    return Kind == Wide::kF32 ? kB32 : Kind == Wide::kF16 ? kPkF16 : kPkBf16;
}

template <Wide Kind>
constexpr Type result_type() {
    return Kind == Wide::kF32 ? kPkF32 : Kind == Wide::kF16 ? kPkF16 : kPkBf16;
}

// Two elements of the op_sel word (or byte, for FP4), times the scale in S1.
template <SmallFormat Format, Wide Kind>
void decode_pair(Wave& wave, const Inst& inst) {
    refuse_modifiers(inst);
    Scratch scratch[2];
    const Source source = fetch_unselected(wave, inst, 0, scratch[0]);
    const Source scale = fetch_unselected(wave, inst, 1, scratch[1]);
    constexpr unsigned kWidth = Format.width();
    constexpr uint32_t kCode = (1u << kWidth) - 1;
    const unsigned shift = kWidth == 4 ? 8u * (inst.op_sel & 3u) : 16u * (inst.op_sel & 1u);
    const LaneEnv env{wave.mode};
    detail::Result result;
    for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t codes = source.low[lane] >> shift;
        const double factor = scale_factor(scale.low[lane]);
        const uint32_t low = encode_wide<Kind>(env, kDecodeTable<Format>[codes & kCode] * factor);
        const uint32_t high = encode_wide<Kind>(env, kDecodeTable<Format>[codes >> kWidth & kCode] * factor);
        result.low[lane] = Kind == Wide::kF32 ? low : low | high << 16;
        result.high[lane] = high;
    }
    if constexpr (Kind == Wide::kF32) {
        store_qword(wave, inst, result.low, result.high);
    } else {
        store_dword(wave, inst, result.low);
    }
}

// The element of the op_sel byte, times the scale in S1. An f16 result goes to the half that op_sel[3] names; the
// other half stays.
template <SmallFormat Format, Wide Kind>
void decode_one(Wave& wave, const Inst& inst) {
    refuse_modifiers(inst);
    Scratch scratch[2];
    const Source source = fetch_unselected(wave, inst, 0, scratch[0]);
    const Source scale = fetch_unselected(wave, inst, 1, scratch[1]);
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

/// The two values of a lane: two f32 registers, or the halves of one.
template <Wide Kind>
struct PairSource {
    const uint32_t *first, *second;
    double low(int lane) const { return widen<Kind>(first[lane]); }
    double high(int lane) const { return widen<Kind>(Kind == Wide::kF32 ? second[lane] : first[lane] >> 16); }
};

template <SmallFormat Format>
constexpr uint32_t kPairMask = (1u << 2 * Format.width()) - 1;

template <SmallFormat Format>
void store_pair(Wave& wave, const Inst& inst, uint32_t* result) {
    store_field(wave, inst, result, Format.width() == 4 ? byte_shift(inst) : word_shift(inst), kPairMask<Format>);
}

// Two values divided by the scale, rounded to nearest even, into the op_sel word (byte for FP4) of the destination.
template <SmallFormat Format, Wide Kind>
void encode_pair(Wave& wave, const Inst& inst) {
    refuse_modifiers(inst);
    constexpr int kScale = Kind == Wide::kF32 ? 2 : 1;
    Scratch scratch[3];
    PairSource<Kind> pair{};
    pair.first = fetch_unselected(wave, inst, 0, scratch[0]).low;
    pair.second = Kind == Wide::kF32 ? fetch_unselected(wave, inst, 1, scratch[1]).low : pair.first;
    const Source scale = fetch_unselected(wave, inst, kScale, scratch[2]);
    const bool saturates = LaneEnv{wave.mode}.fp16_overflow();
    alignas(64) uint32_t result[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        const double factor = scale_factor(scale.low[lane]);
        const auto code = [&](double value) {
            return encode_small<Format>(unscale(value, factor), saturates, mantissa_bits(Kind), {});
        };
        result[lane] = code(pair.low(lane)) | code(pair.high(lane)) << Format.width();
    }
    store_pair<Format>(wave, inst, result);
}

// As above with random bits from S1 and the scale in S2; the second value takes the next random number.
template <SmallFormat Format, Wide Kind>
void encode_pair_stochastic(Wave& wave, const Inst& inst) {
    refuse_modifiers(inst);
    Scratch scratch[3];
    const Source source = fetch_unselected(wave, inst, 0, scratch[0]);
    const PairSource<Kind> pair{source.low, source.high};
    const Source random = fetch_unselected(wave, inst, 1, scratch[1]);
    const Source scale = fetch_unselected(wave, inst, 2, scratch[2]);
    const bool saturates = LaneEnv{wave.mode}.fp16_overflow();
    alignas(64) uint32_t result[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        const double factor = scale_factor(scale.low[lane]);
        const auto code = [&](double value, uint32_t bits) {
            return encode_small<Format>(unscale(value, factor), saturates, mantissa_bits(Kind), {true, bits});
        };
        const uint32_t first = random.low[lane];
        result[lane] = code(pair.low(lane), first) | code(pair.high(lane), next_random(first)) << Format.width();
    }
    store_pair<Format>(wave, inst, result);
}

// One value (for 16-bit sources the half that op_sel[0] names) with random bits from S1 and the scale in S2, into the
// op_sel byte of the destination.
template <SmallFormat Format, Wide Kind>
void encode_one_stochastic(Wave& wave, const Inst& inst) {
    refuse_modifiers(inst);
    Scratch scratch[3];
    const Source source = fetch_unselected(wave, inst, 0, scratch[0]);
    const Source random = fetch_unselected(wave, inst, 1, scratch[1]);
    const Source scale = fetch_unselected(wave, inst, 2, scratch[2]);
    const unsigned shift = Kind != Wide::kF32 && (inst.op_sel & 1) != 0 ? 16 : 0;
    const bool saturates = LaneEnv{wave.mode}.fp16_overflow();
    alignas(64) uint32_t result[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        const double value = unscale(widen<Kind>(source.low[lane] >> shift), scale_factor(scale.low[lane]));
        result[lane] = encode_small<Format>(value, saturates, mantissa_bits(Kind), {true, random.low[lane]});
    }
    store_field(wave, inst, result, byte_shift(inst), 0xff);
}

constexpr OpInfo row(const char* name, uint16_t opcode, Type dst, std::initializer_list<Type> sources,
                     Handler run, uint32_t flags = kNoFlags) {
    return vector_row(name, Encoding::kVop3, opcode, dst, sources, run, flags, kGfx950Bit);
}

template <SmallFormat Format, Wide Kind>
constexpr OpInfo decode_row(const char* name, uint16_t opcode) {
    return row(name, opcode, result_type<Kind>(), {kB32, kB32}, decode_pair<Format, Kind>);
}

template <SmallFormat Format, Wide Kind>
constexpr OpInfo encode_row(const char* name, uint16_t opcode) {
    constexpr Handler kRun = encode_pair<Format, Kind>;
    return approximate(Kind == Wide::kF32
                           ? row(name, opcode, kB32, {kB32, kB32, kB32}, kRun, kDstIsRead)
                           : row(name, opcode, kB32, {wide_type<Kind>(), kB32}, kRun, kDstIsRead),
                       kScaledNote);
}

template <SmallFormat Format, Wide Kind>
constexpr OpInfo stochastic_row(const char* name, uint16_t opcode) {
    if constexpr (Format.width() == 4) {
        return approximate(row(name, opcode, kB32, {Kind == Wide::kF32 ? kB64 : wide_type<Kind>(), kB32, kB32},
                               encode_pair_stochastic<Format, Kind>, kDstIsRead),
                           kStochasticNote);
    } else {
        return approximate(row(name, opcode, kB32, {wide_type<Kind>(), kB32, kB32},
                               encode_one_stochastic<Format, Kind>, kDstIsRead),
                           kStochasticNote);
    }
}

constexpr auto kF32Kind = Wide::kF32, kF16Kind = Wide::kF16, kBf16Kind = Wide::kBf16;

constexpr OpInfo kDecode[] = {
    decode_row<kFp8Ocp, kF32Kind>("v_cvt_scalef32_pk_f32_fp8", 0x239),
    decode_row<kBf8Ocp, kF32Kind>("v_cvt_scalef32_pk_f32_bf8", 0x23a),
    row("v_cvt_scalef32_f32_fp8", 0x23b, kF32, {kB32, kB32}, decode_one<kFp8Ocp, kF32Kind>),
    row("v_cvt_scalef32_f32_bf8", 0x23c, kF32, {kB32, kB32}, decode_one<kBf8Ocp, kF32Kind>),
    decode_row<kFp4, kF32Kind>("v_cvt_scalef32_pk_f32_fp4", 0x23f),
    decode_row<kFp8Ocp, kF16Kind>("v_cvt_scalef32_pk_f16_fp8", 0x248),
    decode_row<kBf8Ocp, kF16Kind>("v_cvt_scalef32_pk_f16_bf8", 0x249),
    row("v_cvt_scalef32_f16_fp8", 0x24a, kF16, {kB32, kB32}, decode_one<kFp8Ocp, kF16Kind>, kDstIsRead),
    row("v_cvt_scalef32_f16_bf8", 0x24b, kF16, {kB32, kB32}, decode_one<kBf8Ocp, kF16Kind>, kDstIsRead),
    decode_row<kFp4, kF16Kind>("v_cvt_scalef32_pk_f16_fp4", 0x250),
    decode_row<kFp4, kBf16Kind>("v_cvt_scalef32_pk_bf16_fp4", 0x251),
    decode_row<kFp8Ocp, kBf16Kind>("v_cvt_scalef32_pk_bf16_fp8", 0x269),
    decode_row<kBf8Ocp, kBf16Kind>("v_cvt_scalef32_pk_bf16_bf8", 0x26a),
};

constexpr OpInfo kEncode[] = {
    encode_row<kFp8Ocp, kF32Kind>("v_cvt_scalef32_pk_fp8_f32", 0x235),
    encode_row<kBf8Ocp, kF32Kind>("v_cvt_scalef32_pk_bf8_f32", 0x236),
    encode_row<kFp4, kF32Kind>("v_cvt_scalef32_pk_fp4_f32", 0x23d),
    encode_row<kFp8Ocp, kF16Kind>("v_cvt_scalef32_pk_fp8_f16", 0x240),
    encode_row<kBf8Ocp, kF16Kind>("v_cvt_scalef32_pk_bf8_f16", 0x241),
    encode_row<kFp8Ocp, kBf16Kind>("v_cvt_scalef32_pk_fp8_bf16", 0x244),
    encode_row<kBf8Ocp, kBf16Kind>("v_cvt_scalef32_pk_bf8_bf16", 0x245),
    encode_row<kFp4, kF16Kind>("v_cvt_scalef32_pk_fp4_f16", 0x24c),
    encode_row<kFp4, kBf16Kind>("v_cvt_scalef32_pk_fp4_bf16", 0x24d),
    stochastic_row<kFp8Ocp, kF32Kind>("v_cvt_scalef32_sr_fp8_f32", 0x237),
    stochastic_row<kBf8Ocp, kF32Kind>("v_cvt_scalef32_sr_bf8_f32", 0x238),
    stochastic_row<kFp4, kF32Kind>("v_cvt_scalef32_sr_pk_fp4_f32", 0x23e),
    stochastic_row<kFp8Ocp, kF16Kind>("v_cvt_scalef32_sr_fp8_f16", 0x242),
    stochastic_row<kBf8Ocp, kF16Kind>("v_cvt_scalef32_sr_bf8_f16", 0x243),
    stochastic_row<kFp8Ocp, kBf16Kind>("v_cvt_scalef32_sr_fp8_bf16", 0x246),
    stochastic_row<kBf8Ocp, kBf16Kind>("v_cvt_scalef32_sr_bf8_bf16", 0x247),
    stochastic_row<kFp4, kF16Kind>("v_cvt_scalef32_sr_pk_fp4_f16", 0x24e),
    stochastic_row<kFp4, kBf16Kind>("v_cvt_scalef32_sr_pk_fp4_bf16", 0x24f),
};

}  // namespace

std::span<const OpInfo> vop3_scaled_ops() {
    static const std::vector<OpInfo> table = join_tables({kDecode, kEncode});
    return table;
}

}  // namespace asmevo::emulator
