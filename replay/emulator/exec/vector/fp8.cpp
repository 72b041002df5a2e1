// Unscaled conversions from and to FP8 and BF8 (FNUZ on gfx942, OCP on gfx950), and stochastic ones to f16 and bf16.
#include "exec/vector/small_convert.h"
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

template <SmallFormat Format>
uint32_t encode(const Wave& wave, uint32_t bits, Rounding rounding = {}) {
    return encode_small<Format>(std::bit_cast<float>(bits), LaneEnv{wave.mode}.fp16_overflow(),
                                mantissa_bits(Wide::kF32), rounding);
}

// Two f32 sources into the op_sel word of the destination.
template <SmallFormat Format>
void encode_pair(Wave& wave, const Inst& inst) {
    refuse_modifiers(inst);
    Scratch scratch[2];
    const Source a = fetch<kPlain>(wave, inst, 0, scratch[0]);
    const Source b = fetch<kPlain>(wave, inst, 1, scratch[1]);
    alignas(64) uint32_t result[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        result[lane] = encode<Format>(wave, a.low[lane]) | encode<Format>(wave, b.low[lane]) << 8;
    }
    store_field(wave, inst, result, word_shift(inst), 0xffff);
}

// One f32 source, rounded with the random bits of the second, into the op_sel byte or half of the destination.
template <SmallFormat Format>
void encode_stochastic(Wave& wave, const Inst& inst) {
    refuse_modifiers(inst);
    Scratch scratch[2];
    const Source a = fetch<kPlain>(wave, inst, 0, scratch[0]);
    const Source random = fetch<kNoFlush>(wave, inst, 1, scratch[1]);
    alignas(64) uint32_t result[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        result[lane] = encode<Format>(wave, a.low[lane], {true, random.low[lane]});
    }
    constexpr bool kIsByte = Format.width() == 8;
    store_field(wave, inst, result, kIsByte ? byte_shift(inst) : word_shift(inst), kIsByte ? 0xff : 0xffff);
}

constexpr OpInfo vop1(const char* name, uint16_t opcode, Type dst, Handler run, TargetMask targets) {
    return vector_row(name, Encoding::kVop1, opcode, dst, {kB32}, run, kNoFlags, targets);
}

constexpr OpInfo pair_row(const char* name, uint16_t opcode, Handler run, TargetMask targets) {
    return approximate(vector_row(name, Encoding::kVop3, opcode, kB32, {kF32, kF32}, run, kDstIsRead, targets),
                       kSaturationNote);
}

constexpr OpInfo stochastic_row(const char* name, uint16_t opcode, Handler run, TargetMask targets) {
    return approximate(vector_row(name, Encoding::kVop3, opcode, kB32, {kF32, kB32}, run, kDstIsRead, targets),
                       kStochasticNote);
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
    pair_row("v_cvt_pk_fp8_f32", 0x2a2, encode_pair<kFp8Fnuz>, kGfx942Bit),
    pair_row("v_cvt_pk_fp8_f32", 0x2a2, encode_pair<kFp8Ocp>, kGfx950Bit),
    pair_row("v_cvt_pk_bf8_f32", 0x2a3, encode_pair<kBf8Fnuz>, kGfx942Bit),
    pair_row("v_cvt_pk_bf8_f32", 0x2a3, encode_pair<kBf8Ocp>, kGfx950Bit),
    stochastic_row("v_cvt_sr_fp8_f32", 0x2a4, encode_stochastic<kFp8Fnuz>, kGfx942Bit),
    stochastic_row("v_cvt_sr_fp8_f32", 0x2a4, encode_stochastic<kFp8Ocp>, kGfx950Bit),
    stochastic_row("v_cvt_sr_bf8_f32", 0x2a5, encode_stochastic<kBf8Fnuz>, kGfx942Bit),
    stochastic_row("v_cvt_sr_bf8_f32", 0x2a5, encode_stochastic<kBf8Ocp>, kGfx950Bit),
    stochastic_row("v_cvt_sr_f16_f32", 0x2a6, encode_stochastic<kHalf>, kGfx950Bit),
    stochastic_row("v_cvt_sr_bf16_f32", 0x2a7, encode_stochastic<kBrainHalf>, kGfx950Bit),
};

}  // namespace

std::span<const OpInfo> vop1_fp8_ops() { return kVop1; }
std::span<const OpInfo> vop3_fp8_ops() { return kVop3; }

}  // namespace asmevo::emulator
