// gfx950's scaled conversions of 32 elements from and to FP6 and BF6 (v_cvt_scalef32_*pk32_*, _2xpk16_*). The six-bit
// codes stand one after another in six registers (CDNA4 ISA, pseudocode of V_CVT_SCALEF32_PK32_*).
#include "exec/vector/small_convert.h"
#include "exec/vector/tables.h"

namespace asmevo::emulator {

namespace {

using enum Type;

constexpr int kElements = 32, kCodeBits = 6, kCodeRegisters = kElements * kCodeBits / 32;

constexpr Type wide_type(Wide kind) { return kind == Wide::kF32 ? kB1024 : kB512; }

/// First register of a source of many registers.
uint16_t first_register(const Wave& wave, const Operand& operand) {
    if (!operand.is_vgpr()) {
        throw Fault("a conversion of 32 elements takes them from vector registers");
    }
    if (wave.gpr_idx_on) {
        throw Fault("VGPR indexing is not implemented for a conversion of 32 elements");
    }
    return operand.index;
}

const uint32_t* lanes_at(const Wave& wave, uint16_t first, int offset) {
    return wave.lanes(static_cast<uint16_t>(first + offset));
}

/// Registers of a result. It may overlap a source: nothing is written before everything is read.
template <int Count>
void store_registers(Wave& wave, const Inst& inst, const LaneArray (&result)[Count]) {
    const uint64_t mask = write_mask(wave, inst);
    for (int i = 0; i < Count; ++i) {
        merge_lanes(wave.lanes(static_cast<uint16_t>(inst.dst[0].index + i)), result[i].lane, mask);
    }
}

uint32_t code_at(const Wave& wave, uint16_t first, int element, int lane) {
    const int bit = element * kCodeBits, shift = bit % 32;
    uint64_t pair = lanes_at(wave, first, bit / 32)[lane];
    if (shift + kCodeBits > 32) {
        pair |= static_cast<uint64_t>(lanes_at(wave, first, bit / 32 + 1)[lane]) << 32;
    }
    return static_cast<uint32_t>(pair >> shift) & 0x3f;
}

template <SmallFormat Format, Wide Kind>
void decode_all(Wave& wave, const Inst& inst) {
    refuse_modifiers(inst);
    constexpr int kRegisters = Kind == Wide::kF32 ? kElements : kElements / 2;
    Scratch scratch;
    const uint16_t first = first_register(wave, inst.src[0]);
    const Source scale = fetch_unselected(wave, inst, 1, scratch);
    LaneArray result[kRegisters];
    for (int element = 0; element < kElements; ++element) {
        for (int lane = 0; lane < kLanes; ++lane) {
            const double value = kDecodeTable<Format>[code_at(wave, first, element, lane)];
            const uint32_t bits =
                encode_wide<Kind>(LaneEnv{wave.mode}, value * scale_factor(scale.low[lane]));
            if constexpr (Kind == Wide::kF32) {
                result[element].lane[lane] = bits;
            } else {
                uint32_t& pair = result[element / 2].lane[lane];
                pair = element % 2 == 0 ? bits : pair | bits << 16;
            }
        }
    }
    store_registers(wave, inst, result);
}

/// Where the elements to encode stand: all in one source, or the even and the odd ones in two.
template <Wide Kind>
struct Elements {
    uint16_t first, second;
    bool is_interleaved;

    double at(const Wave& wave, int element, int lane) const {
        if (is_interleaved) {
            return widen<Kind>(lanes_at(wave, element % 2 == 0 ? first : second, element / 2)[lane]);
        }
        if constexpr (Kind == Wide::kF32) {
            return widen<Kind>(lanes_at(wave, first, element)[lane]);
        } else {
            return widen<Kind>(lanes_at(wave, first, element / 2)[lane] >> (16 * (element % 2)));
        }
    }
};

/// `random`: the first random number of each lane, or null; every element takes the next one.
template <SmallFormat Format, Wide Kind>
void encode_elements(Wave& wave, const Inst& inst, const Elements<Kind>& elements, const Source& scale,
                     const uint32_t* random) {
    refuse_modifiers(inst);
    LaneArray result[kCodeRegisters] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
        Rounding rounding{random != nullptr, random != nullptr ? random[lane] : 0};
        const double factor = scale_factor(scale.low[lane]);
        for (int element = 0; element < kElements; ++element) {
            const uint64_t code = encode_small<Format>(unscale(elements.at(wave, element, lane), factor), true,
                                                       mantissa_bits(Kind), rounding);
            const int bit = element * kCodeBits;
            const uint64_t placed = code << (bit % 32);
            result[bit / 32].lane[lane] |= static_cast<uint32_t>(placed);
            if (placed >> 32 != 0) {
                result[bit / 32 + 1].lane[lane] |= static_cast<uint32_t>(placed >> 32);
            }
            rounding.random = next_random(rounding.random);
        }
    }
    store_registers(wave, inst, result);
}

template <SmallFormat Format, Wide Kind>
void encode_all(Wave& wave, const Inst& inst) {
    Scratch scratch;
    const uint16_t first = first_register(wave, inst.src[0]);
    const Source scale = fetch_unselected(wave, inst, 1, scratch);
    encode_elements<Format, Kind>(wave, inst, {first, first, false}, scale, nullptr);
}

template <SmallFormat Format>
void encode_interleaved(Wave& wave, const Inst& inst) {
    Scratch scratch;
    const uint16_t first = first_register(wave, inst.src[0]), second = first_register(wave, inst.src[1]);
    const Source scale = fetch_unselected(wave, inst, 2, scratch);
    encode_elements<Format, Wide::kF32>(wave, inst, {first, second, true}, scale, nullptr);
}

template <SmallFormat Format, Wide Kind>
void encode_stochastic(Wave& wave, const Inst& inst) {
    Scratch scratch[2];
    const uint16_t first = first_register(wave, inst.src[0]);
    const Source random = fetch_unselected(wave, inst, 1, scratch[0]);
    const Source scale = fetch_unselected(wave, inst, 2, scratch[1]);
    encode_elements<Format, Kind>(wave, inst, {first, first, false}, scale, random.low);
}

constexpr OpInfo row(const char* name, uint16_t opcode, Type dst, std::initializer_list<Type> sources, Handler run) {
    return vector_row(name, Encoding::kVop3, opcode, dst, sources, run, kNoFlags, kGfx950Bit);
}

template <SmallFormat Format, Wide Kind>
constexpr OpInfo decode_row(const char* name, uint16_t opcode) {
    return row(name, opcode, wide_type(Kind), {kB192, kB32}, decode_all<Format, Kind>);
}

template <SmallFormat Format, Wide Kind>
constexpr OpInfo encode_row(const char* name, uint16_t opcode) {
    return approximate(row(name, opcode, kB192, {wide_type(Kind), kB32}, encode_all<Format, Kind>), kScaledNote);
}

template <SmallFormat Format>
constexpr OpInfo interleaved_row(const char* name, uint16_t opcode) {
    return approximate(row(name, opcode, kB192, {kB512, kB512, kB32}, encode_interleaved<Format>), kScaledNote);
}

template <SmallFormat Format, Wide Kind>
constexpr OpInfo stochastic_row(const char* name, uint16_t opcode) {
    return approximate(row(name, opcode, kB192, {wide_type(Kind), kB32, kB32}, encode_stochastic<Format, Kind>),
                       kStochasticNote);
}

constexpr auto kF32Kind = Wide::kF32, kF16Kind = Wide::kF16, kBf16Kind = Wide::kBf16;

constexpr OpInfo kTable[] = {
    interleaved_row<kFp6>("v_cvt_scalef32_2xpk16_fp6_f32", 0x252),
    interleaved_row<kBf6>("v_cvt_scalef32_2xpk16_bf6_f32", 0x253),
    stochastic_row<kFp6, kF32Kind>("v_cvt_scalef32_sr_pk32_fp6_f32", 0x254),
    stochastic_row<kBf6, kF32Kind>("v_cvt_scalef32_sr_pk32_bf6_f32", 0x255),
    decode_row<kFp6, kF32Kind>("v_cvt_scalef32_pk32_f32_fp6", 0x256),
    decode_row<kBf6, kF32Kind>("v_cvt_scalef32_pk32_f32_bf6", 0x257),
    encode_row<kFp6, kF16Kind>("v_cvt_scalef32_pk32_fp6_f16", 0x258),
    encode_row<kFp6, kBf16Kind>("v_cvt_scalef32_pk32_fp6_bf16", 0x259),
    encode_row<kBf6, kF16Kind>("v_cvt_scalef32_pk32_bf6_f16", 0x25a),
    encode_row<kBf6, kBf16Kind>("v_cvt_scalef32_pk32_bf6_bf16", 0x25b),
    stochastic_row<kFp6, kF16Kind>("v_cvt_scalef32_sr_pk32_fp6_f16", 0x25c),
    stochastic_row<kFp6, kBf16Kind>("v_cvt_scalef32_sr_pk32_fp6_bf16", 0x25d),
    stochastic_row<kBf6, kF16Kind>("v_cvt_scalef32_sr_pk32_bf6_f16", 0x25e),
    stochastic_row<kBf6, kBf16Kind>("v_cvt_scalef32_sr_pk32_bf6_bf16", 0x25f),
    decode_row<kFp6, kF16Kind>("v_cvt_scalef32_pk32_f16_fp6", 0x260),
    decode_row<kFp6, kBf16Kind>("v_cvt_scalef32_pk32_bf16_fp6", 0x261),
    decode_row<kBf6, kF16Kind>("v_cvt_scalef32_pk32_f16_bf6", 0x262),
    decode_row<kBf6, kBf16Kind>("v_cvt_scalef32_pk32_bf16_bf6", 0x263),
};

}  // namespace

std::span<const OpInfo> vop3_scaled32_ops() { return kTable; }

}  // namespace asmevo::emulator
