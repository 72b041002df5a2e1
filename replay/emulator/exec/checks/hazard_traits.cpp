#include "exec/checks/hazard_traits.h"

#include <algorithm>
#include <string_view>

#include "exec/wave.h"

namespace asmevo::emulator {
namespace {

constexpr uint8_t kMatrixReach = 20, kValuReach = 5;

bool is_vmem(Category category) {
    switch (category) {
        case Category::kVmemLoad: case Category::kVmemStore: case Category::kVmemAtomic:
        case Category::kFlatLoad: case Category::kFlatStore: case Category::kFlatAtomic:
            return true;
        default:
            return false;
    }
}

bool is_lds(Category category) { return category == Category::kLds || category == Category::kLdsNoReturn; }
bool is_valu(Category category) { return category == Category::kValu || category == Category::kTrans; }

/// Matrix passes; the table's are gfx942's. On gfx950 f64 takes twice as many (LLVM SISchedule.td) and f8f6f4 with an
/// 8-bit operand too (CDNA4 ISA 7.1.2).
uint8_t matrix_passes(const Inst& inst) {
    constexpr uint16_t kF64 = 0x6e, kF8f6f4 = 0x2d, kF8f6f4Large = 0x2e;
    const uint16_t opcode = inst.info->opcode;
    const bool is_mixed = opcode == kF8f6f4 || opcode == kF8f6f4Large;
    const bool is_slow = opcode == kF64 || (is_mixed && (inst.cbsz <= 1 || inst.blgp <= 1));
    return static_cast<uint8_t>(inst.target == Target::kGfx950 && is_slow ? 2 * inst.info->passes
                                                                          : inst.info->passes);
}

MatrixKind matrix_kind(std::string_view name) {
    // "…x4_f32" since gfx940, "…x4f32" before; not "…_xf32", and "f32" at the front is the result's type.
    if (name.ends_with("f64")) {
        return MatrixKind::kDgemm;
    }
    return name.ends_with("f32") && !name.ends_with("xf32") ? MatrixKind::kSgemm : MatrixKind::kXdl;
}

uint16_t vector_uses(const Inst& inst, std::string_view name) {
    unsigned uses = inst.info->category == Category::kMfma ? kMatrixUse : kValuUse;
    uses |= inst.dpp.enabled ? kDppUse : kNoUse;
    if (name == "v_readlane_b32" || name == "v_readfirstlane_b32") {
        uses |= kLaneReadUse;
    } else if (name == "v_writelane_b32") {
        uses |= kLaneWriteUse;
    } else if (name.starts_with("v_permlane")) {
        uses |= kLaneSwapUse;
    } else if (name.starts_with("v_div_fmas")) {
        uses |= kDivFmasUse;
    } else if (name == "v_fma_f64" || name == "v_fmac_f64") {
        uses |= kFmaF64Use;
    }
    return static_cast<uint16_t>(uses);
}

uint16_t uses_of(const Inst& inst, std::string_view name) {
    const Category category = inst.info->category;
    const bool reads_m0 = std::any_of(inst.reads, inst.reads + inst.read_count, [](const RegSpan& span) {
        return span.file == RegSpan::kScalar && span.first == kM0Code;
    });
    const unsigned late_m0 = reads_m0 ? kLateM0Use : kNoUse;
    if (is_valu(category) || category == Category::kMfma) {
        return vector_uses(inst, name);
    }
    if (is_vmem(category)) {
        return static_cast<uint16_t>(kVmemUse | late_m0);
    }
    if (is_lds(category)) {
        return static_cast<uint16_t>(kLdsUse | late_m0 | (inst.gds ? kLateM0Use : kNoUse));
    }
    if (name.starts_with("s_setreg") || name.starts_with("s_getreg")) {
        return kSetregUse;
    }
    const bool is_indexed_move = name.starts_with("s_movrel");
    return static_cast<uint16_t>(category == Category::kMessage || is_indexed_move ? late_m0 : 0u);
}

/// A conversion into a part of its destination: the low half or byte needs no shift.
bool is_partial_conversion(std::string_view name) {
    return name.starts_with("v_cvt_pk_fp8") || name.starts_with("v_cvt_pk_bf8") ||
           name.starts_with("v_cvt_sr_fp8") || name.starts_with("v_cvt_sr_bf8") ||
           name.starts_with("v_cvt_scalef32");
}

void describe_destination(const Inst& inst, std::string_view name, HazardTraits& traits) {
    const bool is_vop3p = inst.info->encoding == Encoding::kVop3p;
    const bool has_result = inst.dst[0].is_vgpr();
    if (inst.sdwa.enabled && has_result) {
        traits.shifts_destination = inst.sdwa.dst_sel != kDword;
        traits.preserves_destination = inst.sdwa.dst_unused == 2;
    } else if (!is_vop3p && has_result) {
        // The byte of v_cvt_sr_* stands in op_sel[3:2].
        const unsigned selects = name.starts_with("v_cvt_sr") || name.starts_with("v_cvt_scalef32_sr") ? 12 : 8;
        traits.shifts_destination = (inst.op_sel & selects) != 0;
        traits.preserves_destination = traits.shifts_destination || is_partial_conversion(name);
    }
}

/// Data registers of a store of more than 64 bits: they are read after issue (CDNA3 ISA 4.5). A buffer store with an
/// SGPR offset takes an issue cycle more and is exempt.
RegSpan wide_data(const Inst& inst) {
    const Category category = inst.info->category;
    const bool is_store = category == Category::kVmemStore || category == Category::kFlatStore ||
                          category == Category::kVmemAtomic || category == Category::kFlatAtomic;
    const Operand& data = inst.src[1];
    const bool is_buffer = inst.info->encoding == Encoding::kMubuf || inst.info->encoding == Encoding::kMtbuf;
    if (!is_store || !data.is_vgpr() || data.dwords <= 2 || (is_buffer && inst.src[3].is_sgpr())) {
        return {};
    }
    return {RegSpan::kVector, data.index, data.dwords};
}

void describe_valu_result(const Inst& inst, std::string_view name, HazardTraits& traits) {
    for (unsigned i = 0; i < inst.write_count; ++i) {
        const RegSpan& span = inst.writes[i];
        if (span.file == RegSpan::kVector) {
            traits.writes_vector = true;
        } else if (span.first == kExecCode) {
            traits.writes_exec = true;
        } else {
            traits.writes_scalar = true;
        }
    }
    unsigned interests = 0;
    if (traits.writes_exec) {
        interests |= kLaneReadUse | kLaneWriteUse | kLaneSwapUse | kDppUse | kMatrixUse | kVmemUse;
        traits.reach = kValuReach;
    }
    if (traits.writes_scalar) {
        interests |= kVmemUse | kValuUse;
        traits.reach = kValuReach;
    }
    if (traits.writes_vector) {
        interests |= kDppUse | kLaneSwapUse | kMatrixUse | kLaneReadUse;
        traits.is_transcendental = inst.info->category == Category::kTrans;
        traits.is_dot = name.starts_with("v_dot");
        traits.is_packed = inst.info->encoding == Encoding::kVop3p && !name.starts_with("v_accvgpr") &&
                           inst.src[0].op_sel_hi;
        if (traits.is_transcendental || traits.shifts_destination || traits.is_packed ||
            is_partial_conversion(name)) {
            interests |= kValuUse;  // kMatrixUse is there
        }
        if (traits.is_dot) {
            interests |= kValuUse | kMatrixUse | kVmemUse | kLdsUse;
        }
        traits.reach = std::max<uint8_t>(traits.reach, traits.is_dot ? 3 : 2);
        if (inst.target == Target::kGfx90a) {
            // A DGEMM between it and a memory access: see dgemm-memory.
            interests |= kVmemUse | kLdsUse;
        }
    }
    traits.interests = static_cast<uint16_t>(interests);
}

void describe_producer(const Inst& inst, std::string_view name, HazardTraits& traits) {
    const Category category = inst.info->category;
    const bool writes_m0 = std::any_of(inst.writes, inst.writes + inst.write_count, [](const RegSpan& span) {
        return span.file == RegSpan::kScalar && span.first <= kM0Code && span.first + span.count > kM0Code;
    });
    if (category == Category::kMfma) {
        if (inst.dst[0]) {
            traits.matrix = matrix_kind(name);
            traits.passes = matrix_passes(inst);
            traits.interests = kMatrixUse | kValuUse | kVmemUse | kLdsUse | kFmaF64Use;
            traits.reach = kMatrixReach;
        } else {
            traits.states = 0;  // v_mfma_ld_scale: one instruction with the operation behind it
        }
    } else if (is_valu(category)) {
        describe_destination(inst, name, traits);
        describe_valu_result(inst, name, traits);
    } else if (is_vmem(category) || is_lds(category)) {
        traits.wide_data = wide_data(inst);
        traits.writes_vector = inst.dst[0].is_vgpr();
        traits.interests = static_cast<uint16_t>((traits.wide_data.count ? kValuUse | kMatrixUse : kNoUse + 0) |
                                                 (traits.writes_vector ? kDppUse : kNoUse));
        traits.reach = traits.interests ? 2 : 0;
    } else if (name.starts_with("s_setreg")) {
        traits.interests = kSetregUse;
        traits.reach = 2;
    } else if (writes_m0) {
        traits.interests = kLateM0Use;
        traits.reach = 1;
    } else if (category == Category::kNop && name == "s_nop") {
        traits.states = static_cast<uint8_t>((inst.simm & 15) + 1);
    }
}

}  // namespace

HazardTraits hazard_traits(const Inst& inst) {
    const std::string_view name = inst.info->name;
    HazardTraits traits;
    traits.inst = &inst;
    traits.uses = uses_of(inst, name);
    if (name == "v_readlane_b32" || name == "v_writelane_b32") {
        traits.lane_select = inst.src[1];
    }
    describe_producer(inst, name, traits);
    return traits;
}

}  // namespace asmevo::emulator
