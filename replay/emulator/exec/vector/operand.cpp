#include "exec/vector/operand.h"

#include <bit>
#include <cmath>
#include <string>

#include "exec/vector/half.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

namespace {

constexpr int kRowLanes = 16;

// Lane that `lane` reads under a DPP control, or -1 when there is none (CDNA3 ISA, "DPP controls").
int dpp_source_lane(unsigned control, int lane) {
    const int row = lane & ~(kRowLanes - 1), column = lane & (kRowLanes - 1);
    const int count = static_cast<int>(control & 0xf);
    if (control < 0x100) {
        return (lane & ~3) + static_cast<int>((control >> (2 * (lane & 3))) & 3);
    }
    switch (control >> 4) {
        case 0x10: return count == 0 || column + count >= kRowLanes ? -1 : lane + count;
        case 0x11: return count == 0 || column < count ? -1 : lane - count;
        case 0x12: return row + ((column - count) & (kRowLanes - 1));
        case 0x15: return row + count;
        default: break;
    }
    switch (control) {
        case 0x130: return lane + 1 < kLanes ? lane + 1 : -1;
        case 0x134: return (lane + 1) & (kLanes - 1);
        case 0x138: return lane - 1;
        case 0x13c: return (lane - 1) & (kLanes - 1);
        case 0x140: return row + (kRowLanes - 1 - column);
        case 0x141: return (lane & ~7) + (7 - (lane & 7));
        case 0x142: return row - 1;                  // row_bcast15: last lane of the row before
        case 0x143: return lane >= 32 ? 31 : -1;     // row_bcast31: to rows 2 and 3
        default: throw Fault("unknown DPP control " + std::to_string(control));
    }
}

// A DPP control worked out for all lanes: the lane each one reads, and which of them have one to read.
struct DppPattern {
    uint8_t source[kLanes];
    uint64_t has_source;
};

DppPattern make_pattern(unsigned control) {
    DppPattern pattern{};
    for (int lane = 0; lane < kLanes; ++lane) {
        const int source = dpp_source_lane(control, lane);
        pattern.source[lane] = static_cast<uint8_t>(source < 0 ? 0 : source);
        pattern.has_source |= static_cast<uint64_t>(source >= 0) << lane;
    }
    return pattern;
}

// Kernels use few controls, over and over: each host thread remembers the last one for each of their hashes.
const DppPattern& dpp_pattern(unsigned control) {
    struct Entry {
        unsigned control = ~0u;
        DppPattern pattern;
    };
    constexpr size_t kEntries = 64;
    thread_local Entry entries[kEntries];
    Entry& entry = entries[(control ^ control >> 6) % kEntries];
    if (entry.control != control) {
        entry.pattern = make_pattern(control);
        entry.control = control;
    }
    return entry.pattern;
}

// Lanes whose source exists and is active.
uint64_t dpp_readable(const Wave& wave, const DppPattern& pattern) {
    const uint64_t exec = wave.exec();
    if (exec == ~0ull) {
        return pattern.has_source;
    }
    uint64_t mask = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        mask |= (exec >> pattern.source[lane] & 1) << lane;
    }
    return mask & pattern.has_source;
}

uint64_t dpp_write_mask(const Wave& wave, const Dpp& dpp) {
    uint64_t banks = 0;
    for (int bank = 0; bank < 4; ++bank) {
        banks |= (dpp.bank_mask >> bank & 1) != 0 ? 0xfull << (4 * bank) : 0;
    }
    uint64_t mask = 0;
    for (int row = 0; row < kLanes / kRowLanes; ++row) {
        mask |= (dpp.row_mask >> row & 1) != 0 ? banks << (kRowLanes * row) : 0;
    }
    return dpp.bound_ctrl ? mask : mask & dpp_readable(wave, dpp_pattern(dpp.control));
}

// Lanes without a source read zero.
void dpp_swizzle(const Wave& wave, const Dpp& dpp, const uint32_t* from, uint32_t* to) {
    const DppPattern& pattern = dpp_pattern(dpp.control);
    alignas(64) uint32_t readable[kLanes];
    spread_mask(dpp_readable(wave, pattern), readable);
    for (int lane = 0; lane < kLanes; ++lane) {
        to[lane] = from[pattern.source[lane]] & readable[lane];
    }
}

void load_scalar(const Wave& wave, const Operand& operand, Scratch& scratch) {
    uint64_t value;
    if (operand.kind == OperandKind::kConst) {
        value = operand.constant;
    } else if (operand.dwords == 2) {
        value = read_scalar64(wave, operand);
    } else {
        value = read_scalar32(wave, operand);
    }
    broadcast(static_cast<uint32_t>(value), scratch.dword[0].lane);
    if (operand.dwords == 2) {
        broadcast(static_cast<uint32_t>(value >> 32), scratch.dword[1].lane);
    }
}

void load_vgpr(const Wave& wave, const Inst& inst, int index, Scratch& scratch) {
    const Operand& operand = inst.src[index];
    const uint16_t first = vgpr_number(wave, operand, index);
    const int count = operand.dwords == 2 ? 2 : 1;
    const bool is_wide = count == 2 || inst.dst[0].dwords == 2;
    if (index == 0 && inst.dpp.enabled && is_wide && inst.dpp.control >> 4 != 0x15) {
        throw Fault("64-bit operations have only the DPP control row_newbcast");
    }
    for (int i = 0; i < count; ++i) {
        const uint32_t* lanes = wave.lanes(static_cast<uint16_t>(first + i));
        if (index == 0 && inst.dpp.enabled) {
            dpp_swizzle(wave, inst.dpp, lanes, scratch.dword[i].lane);
        } else {
            std::memcpy(scratch.dword[i].lane, lanes, sizeof(LaneArray));
        }
    }
}

void select_sdwa(const Operand& operand, uint32_t* lanes) {
    const unsigned select = operand.sdwa_sel;
    const bool is_byte = select <= kByte3;
    const unsigned shift = is_byte ? 8 * select : 16 * (select - kWord0);
    for (int lane = 0; lane < kLanes && select != kDword; ++lane) {
        const uint32_t value = lanes[lane] >> shift;
        if (operand.sext) {
            lanes[lane] = is_byte ? static_cast<uint32_t>(static_cast<int8_t>(value))
                                  : static_cast<uint32_t>(static_cast<int16_t>(value));
        } else {
            lanes[lane] = value & (is_byte ? 0xffu : 0xffffu);
        }
    }
}

bool is_packed_half(Type type) {
    return type == Type::kPkF16 || type == Type::kPkI16 || type == Type::kPkBf16;
}

bool is_half(Type type) {
    return type == Type::kF16 || type == Type::kI16 || type == Type::kBf16;
}

void select_packed(const Operand& operand, Scratch& scratch) {
    uint32_t* low = scratch.dword[0].lane;
    if (operand.type == Type::kPkF32) {
        uint32_t* high = scratch.dword[1].lane;
        const uint32_t neg = operand.neg ? 0x80000000u : 0, neg_hi = operand.neg_hi ? 0x80000000u : 0;
        for (int lane = 0; lane < kLanes; ++lane) {
            const uint32_t first = low[lane], second = high[lane];
            low[lane] = (operand.op_sel ? second : first) ^ neg;
            high[lane] = (operand.op_sel_hi ? second : first) ^ neg_hi;
        }
        return;
    }
    const uint32_t flip = (operand.neg ? 0x8000u : 0) | (operand.neg_hi ? 0x80000000u : 0);
    for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t value = low[lane];
        const uint32_t first = operand.op_sel ? value >> 16 : value & 0xffff;
        const uint32_t second = operand.op_sel_hi ? value >> 16 : value & 0xffff;
        low[lane] = (first | second << 16) ^ flip;
    }
}

// Sign bit position within the dword that holds it.
uint32_t sign_bit(Type type) { return is_half(type) ? 0x8000u : 0x80000000u; }

void apply_sign(const Operand& operand, Scratch& scratch) {
    uint32_t* lanes = scratch.dword[operand.dwords == 2 ? 1 : 0].lane;
    const uint32_t sign = sign_bit(operand.type);
    const uint32_t keep = operand.abs ? ~sign : ~0u, flip = operand.neg ? sign : 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = (lanes[lane] & keep) ^ flip;
    }
}

uint32_t flush_f32(uint32_t bits) { return (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits; }
uint32_t flush_f16(uint32_t bits) { return (bits & 0x7c00u) == 0 ? bits & 0xffff8000u : bits; }
uint32_t flush_pk_f16(uint32_t bits) {
    return flush_f16(bits & 0xffffu) | flush_f16(bits >> 16) << 16;
}

void flush_f64(uint32_t* low, uint32_t* high) {
    for (int lane = 0; lane < kLanes; ++lane) {
        if ((high[lane] & 0x7ff00000u) == 0) {
            high[lane] &= 0x80000000u;
            low[lane] = 0;
        }
    }
}

template <typename Flush>
void flush_each(uint32_t* lanes, Flush flush) {
    for (int lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = flush(lanes[lane]);
    }
}

// Replaces denormals by zeros of their sign where MODE (the two bits given) does not keep them.
void flush_denormals(uint32_t mode, Type type, uint32_t keep32, uint32_t keep16_64, uint32_t* low,
                     uint32_t* high) {
    const bool flush32 = (mode & keep32) == 0, flush16_64 = (mode & keep16_64) == 0;
    if (flush32 && (type == Type::kF32 || type == Type::kPkF32)) {
        flush_each(low, flush_f32);
        if (type == Type::kPkF32) {
            flush_each(high, flush_f32);
        }
    } else if (flush16_64 && type == Type::kF16) {
        flush_each(low, flush_f16);
    } else if (flush16_64 && type == Type::kPkF16) {
        flush_each(low, flush_pk_f16);
    } else if (flush16_64 && type == Type::kF64) {
        flush_f64(low, high);
    }
}

double scale_of(uint8_t omod) { return omod == 1 ? 2.0 : omod == 2 ? 4.0 : omod == 3 ? 0.5 : 1.0; }

// Limits to [0, 1]; NaN becomes 0 under DX10 clamp. -0 becomes +0, as max(x, 0) gives.
template <typename T>
T clamp01(T value, bool dx10_clamp) {
    if (value != value) {
        return dx10_clamp ? T(0) : value;
    }
    return value > T(0) ? (value < T(1) ? value : T(1)) : T(0);
}

// omod works only with output denormals off and IEEE off; it makes -0 a +0 (CDNA3 ISA, "Output modifiers").
bool uses_omod(const Wave& wave, const Inst& inst, uint32_t denorm_out) {
    return inst.omod != 0 && (wave.mode & (denorm_out | kModeIeee)) == 0;
}

template <typename T>
T output_modifier(T value, T scale, bool scaled, bool clamped, bool dx10_clamp) {
    if (scaled) {
        value = value * scale + T(0);
    }
    return clamped ? clamp01(value, dx10_clamp) : value;
}

void finish_f32(const Wave& wave, const Inst& inst, uint32_t* lanes) {
    const bool scaled = uses_omod(wave, inst, kModeDenormOut32);
    const bool dx10_clamp = (wave.mode & kModeDx10Clamp) != 0;
    const float scale = static_cast<float>(scale_of(inst.omod));
    for (int lane = 0; lane < kLanes && (scaled || inst.clamp); ++lane) {
        const float value = std::bit_cast<float>(lanes[lane]);
        lanes[lane] = std::bit_cast<uint32_t>(
            output_modifier(value, scale, scaled, inst.clamp, dx10_clamp));
    }
}

uint32_t finish_f16_bits(uint32_t bits, float scale, bool scaled, bool clamped, bool dx10_clamp) {
    const float value = f16_to_f32(static_cast<uint16_t>(bits));
    return f32_to_f16(output_modifier(value, scale, scaled, clamped, dx10_clamp));
}

void finish_f16(const Wave& wave, const Inst& inst, uint32_t* lanes, bool packed) {
    const bool scaled = uses_omod(wave, inst, kModeDenormOut16And64);
    const bool dx10_clamp = (wave.mode & kModeDx10Clamp) != 0;
    const float scale = static_cast<float>(scale_of(inst.omod));
    for (int lane = 0; lane < kLanes && (scaled || inst.clamp); ++lane) {
        uint32_t bits = finish_f16_bits(lanes[lane], scale, scaled, inst.clamp, dx10_clamp);
        if (packed) {
            bits |= finish_f16_bits(lanes[lane] >> 16, scale, scaled, inst.clamp, dx10_clamp) << 16;
        }
        lanes[lane] = bits;
    }
}

void finish_f64(const Wave& wave, const Inst& inst, uint32_t* low, uint32_t* high) {
    const bool scaled = uses_omod(wave, inst, kModeDenormOut16And64);
    const bool dx10_clamp = (wave.mode & kModeDx10Clamp) != 0;
    for (int lane = 0; lane < kLanes && (scaled || inst.clamp); ++lane) {
        const uint64_t bits = static_cast<uint64_t>(high[lane]) << 32 | low[lane];
        const uint64_t result = std::bit_cast<uint64_t>(
            output_modifier(std::bit_cast<double>(bits), scale_of(inst.omod), scaled, inst.clamp,
                            dx10_clamp));
        low[lane] = static_cast<uint32_t>(result);
        high[lane] = static_cast<uint32_t>(result >> 32);
    }
}

// SDWA destination: the result's low bits go to the selected byte or word.
void place_sdwa(const Sdwa& sdwa, const uint32_t* old, uint32_t* lanes) {
    const bool is_byte = sdwa.dst_sel <= kByte3;
    const unsigned shift = is_byte ? 8 * sdwa.dst_sel : 16 * (sdwa.dst_sel - kWord0);
    const uint32_t field = (is_byte ? 0xffu : 0xffffu) << shift;
    for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t value = (lanes[lane] << shift) & field;
        const bool negative = (value & (field ^ (field >> 1)) & field) != 0;
        uint32_t rest = 0;
        if (sdwa.dst_unused == 2) {
            rest = old[lane] & ~field;
        } else if (sdwa.dst_unused == 1 && negative) {
            rest = ~(field | (field - 1));  // bits above the field
        }
        lanes[lane] = value | rest;
    }
}

}  // namespace

uint64_t write_mask(const Wave& wave, const Inst& inst) {
    const uint64_t exec = wave.exec();
    return inst.dpp.enabled ? exec & dpp_write_mask(wave, inst.dpp) : exec;
}

uint16_t vgpr_number(const Wave& wave, const Operand& operand, int slot) {
    if (!wave.gpr_idx_on || ((wave.m0() >> (12 + slot)) & 1) == 0) [[likely]] {
        return operand.index;
    }
    const uint32_t number = operand.index + (wave.m0() & 0xff);
    if (number + (operand.dwords == 2 ? 1 : 0) >= wave.arch_vgpr_count) {
        throw Fault("indexed VGPR v" + std::to_string(number) + " is not allocated to the wave");
    }
    if ((wave.pending_vgpr[number / 64] >> (number % 64)) & 1) {
        throw Fault("indexed VGPR v" + std::to_string(number) + " is still being loaded");
    }
    return static_cast<uint16_t>(number);
}

Source fetch_modified(const Wave& wave, const Inst& inst, int index, unsigned options,
                      Scratch& scratch) {
    const Operand& operand = inst.src[index];
    if (operand.is_vgpr()) {
        load_vgpr(wave, inst, index, scratch);
    } else {
        load_scalar(wave, operand, scratch);
    }
    uint32_t* low = scratch.dword[0].lane;
    uint32_t* high = scratch.dword[1].lane;
    const bool packed = (options & kPacked) != 0;
    if (packed && (is_packed_half(operand.type) || operand.type == Type::kPkF32)) {
        select_packed(operand, scratch);
    } else {
        if (operand.sdwa_sel != kDword) {
            select_sdwa(operand, low);
        } else if (operand.op_sel && is_half(operand.type) && !packed) {
            flush_each(low, [](uint32_t bits) { return bits >> 16; });
        }
        if (operand.neg || operand.abs) {
            apply_sign(operand, scratch);
        }
    }
    if ((options & kNoFlush) == 0) {
        flush_denormals(wave.mode, operand.type, kModeDenormIn32, kModeDenormIn16And64, low, high);
    }
    return {low, high};
}

Source fetch_accumulator(const Wave& wave, const Inst& inst, unsigned options, Scratch& scratch) {
    const uint32_t* lanes = wave.lanes(vgpr_number(wave, inst.dst[0], 3));
    if ((options & kNoFlush) != 0 || (wave.mode & kModeDenormAll) == kModeDenormAll) {
        return {lanes, lanes + kLanes};
    }
    const size_t dwords = inst.dst[0].dwords == 2 ? 2 : 1;
    std::memcpy(&scratch, lanes, dwords * sizeof(LaneArray));
    flush_denormals(wave.mode, inst.dst[0].type, kModeDenormIn32, kModeDenormIn16And64,
                    scratch.dword[0].lane, scratch.dword[1].lane);
    return {scratch.dword[0].lane, scratch.dword[1].lane};
}

void finish_result(const Wave& wave, const Inst& inst, uint32_t* low, uint32_t* high) {
    const Type type = inst.dst[0].type;
    switch (type) {
        case Type::kF32: finish_f32(wave, inst, low); break;
        case Type::kPkF32:
            finish_f32(wave, inst, low);
            finish_f32(wave, inst, high);
            break;
        case Type::kF16: finish_f16(wave, inst, low, false); break;
        case Type::kPkF16: finish_f16(wave, inst, low, true); break;
        case Type::kF64: finish_f64(wave, inst, low, high); break;
        default:
            if (inst.clamp) {
                throw Fault(std::string("clamp of ") + inst.info->name + " is not implemented");
            }
            return;
    }
    flush_denormals(wave.mode, type, kModeDenormOut32, kModeDenormOut16And64, low, high);
}

void store_dword(Wave& wave, const Inst& inst, uint32_t* result) {
    uint32_t* to = wave.lanes(vgpr_number(wave, inst.dst[0], 3));
    if (inst.sdwa.enabled && inst.sdwa.dst_sel != kDword) {
        place_sdwa(inst.sdwa, to, result);
    }
    merge_lanes(to, result, write_mask(wave, inst));
}

void store_half(Wave& wave, const Inst& inst, uint32_t* result, bool keeps_high) {
    if ((inst.op_sel & 8) != 0) {
        const uint32_t* old = wave.lanes(vgpr_number(wave, inst.dst[0], 3));
        for (int lane = 0; lane < kLanes; ++lane) {
            result[lane] = result[lane] << 16 | (old[lane] & 0xffffu);
        }
    } else if (keeps_high) {
        const uint32_t* old = wave.lanes(vgpr_number(wave, inst.dst[0], 3));
        for (int lane = 0; lane < kLanes; ++lane) {
            result[lane] = (result[lane] & 0xffffu) | (old[lane] & 0xffff0000u);
        }
    }
    store_dword(wave, inst, result);
}

void store_qword(Wave& wave, const Inst& inst, const uint32_t* low, const uint32_t* high) {
    const uint16_t first = vgpr_number(wave, inst.dst[0], 3);
    const uint64_t mask = write_mask(wave, inst);
    merge_lanes(wave.lanes(first), low, mask);
    merge_lanes(wave.lanes(static_cast<uint16_t>(first + 1)), high, mask);
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
