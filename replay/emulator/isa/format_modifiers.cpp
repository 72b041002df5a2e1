// Immediates and modifiers of the instruction printer.
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "isa/bitop3.h"
#include "isa/format.h"

namespace asmevo::emulator {
namespace {

std::string hex(uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

std::string waitcnt(uint32_t simm) {
    unsigned vm = (simm & 15) | (simm >> 14 & 3) << 4, exp = simm >> 4 & 7, lgkm = simm >> 8 & 15;
    std::string text;
    auto add = [&](const char* name, unsigned value) {
        text += (text.empty() ? "" : " ") + std::string(name) + "(" + std::to_string(value) + ")";
    };
    bool all_idle = vm == 63 && exp == 7 && lgkm == 15;
    if (vm != 63 || all_idle) {
        add("vmcnt", vm);
    }
    if (exp != 7 || all_idle) {
        add("expcnt", exp);
    }
    if (lgkm != 15 || all_idle) {
        add("lgkmcnt", lgkm);
    }
    return text;
}

const char* hwreg_name(unsigned id) {
    switch (id) {
        case 1: return "HW_REG_MODE";
        case 2: return "HW_REG_STATUS";
        case 3: return "HW_REG_TRAPSTS";
        case 4: return "HW_REG_HW_ID";
        case 5: return "HW_REG_GPR_ALLOC";
        case 6: return "HW_REG_LDS_ALLOC";
        case 7: return "HW_REG_IB_STS";
        case 15: return "HW_REG_SH_MEM_BASES";
        case 20: return "HW_REG_XCC_ID";
        default: return nullptr;
    }
}

std::string hwreg(uint32_t simm) {
    unsigned id = simm & 63, offset = simm >> 6 & 31, size = (simm >> 11 & 31) + 1;
    const char* name = hwreg_name(id);
    std::string text = "hwreg(" + (name ? std::string(name) : std::to_string(id));
    if (offset != 0 || size != 32) {
        text += ", " + std::to_string(offset) + ", " + std::to_string(size);
    }
    return text + ")";
}

std::string gpr_index_modes(uint32_t modes) {
    static constexpr std::array<const char*, 4> kModes = {"SRC0", "SRC1", "SRC2", "DST"};
    std::string text;
    for (unsigned i = 0; i < 4; ++i) {
        if (modes & (1u << i)) {
            text += (text.empty() ? "" : ",") + std::string(kModes[i]);
        }
    }
    return "gpr_idx(" + text + ")";
}

std::string dpp_control(unsigned control) {
    auto row = [&](const char* name, unsigned base) {
        return std::string(name) + ":" + std::to_string(control - base);
    };
    if (control <= 0xff) {
        std::string text = "quad_perm:[";
        for (unsigned i = 0; i < 4; ++i) {
            text += (i ? "," : "") + std::to_string(control >> (2 * i) & 3);
        }
        return text + "]";
    }
    if (control > 0x100 && control <= 0x10f) {
        return row("row_shl", 0x100);
    }
    if (control > 0x110 && control <= 0x11f) {
        return row("row_shr", 0x110);
    }
    if (control > 0x120 && control <= 0x12f) {
        return row("row_ror", 0x120);
    }
    if (control >= 0x150 && control <= 0x15f) {
        return row("row_newbcast", 0x150);
    }
    switch (control) {
        case 0x130: return "wave_shl:1";
        case 0x134: return "wave_rol:1";
        case 0x138: return "wave_shr:1";
        case 0x13c: return "wave_ror:1";
        case 0x140: return "row_mirror";
        case 0x141: return "row_half_mirror";
        case 0x142: return "row_bcast:15";
        case 0x143: return "row_bcast:31";
        default: return "dpp_ctrl:" + hex(control);
    }
}

std::string dpp_modifiers(const Dpp& dpp) {
    return " " + dpp_control(dpp.control) + " row_mask:" + hex(dpp.row_mask) +
           " bank_mask:" + hex(dpp.bank_mask) + (dpp.bound_ctrl ? " bound_ctrl:1" : "");
}

std::string sdwa_modifiers(const Inst& inst) {
    static constexpr std::array<const char*, 8> kSelects = {
        "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD", "?"};
    static constexpr std::array<const char*, 4> kUnused = {"UNUSED_PAD", "UNUSED_SEXT",
                                                           "UNUSED_PRESERVE", "?"};
    std::string text;
    // A result of two registers is always written whole.
    if (inst.info->encoding != Encoding::kVopc && inst.dst[0].dwords != 2) {
        text += std::string(" dst_sel:") + kSelects[inst.sdwa.dst_sel & 7];
        text += std::string(" dst_unused:") + kUnused[inst.sdwa.dst_unused & 3];
    }
    text += std::string(" src0_sel:") + kSelects[inst.src[0].sdwa_sel & 7];
    if (inst.info->encoding != Encoding::kVop1) {
        text += std::string(" src1_sel:") + kSelects[inst.src[1].sdwa_sel & 7];
    }
    return text;
}

/// A list such as ` op_sel_hi:[1,0]`, left out when every entry has its usual value.
template <typename Get>
std::string bit_list(const Inst& inst, const char* name, bool usual, Get get) {
    std::string text;
    bool is_usual = true;
    for (const Operand& operand : inst.src) {
        if (!operand) {
            break;
        }
        bool value = get(operand);
        is_usual = is_usual && value == usual;
        text += (text.empty() ? "" : ",") + std::string(value ? "1" : "0");
    }
    return is_usual ? "" : " " + std::string(name) + ":[" + text + "]";
}

std::string packed_modifiers(const Inst& inst) {
    bool mixes = is_mix(inst);
    std::string text = bit_list(inst, "op_sel", false, [](const Operand& o) { return o.op_sel; });
    text += bit_list(inst, "op_sel_hi", !mixes, [](const Operand& o) { return o.op_sel_hi; });
    if (!mixes) {
        text += bit_list(inst, "neg_lo", false, [](const Operand& o) { return o.neg; });
        text += bit_list(inst, "neg_hi", false, [](const Operand& o) { return o.neg_hi; });
    }
    return text;
}

/// Conversions that write one byte name it with the two upper bits of op_sel, whatever sources they have.
bool selects_byte(std::string_view name) {
    return name.starts_with("v_cvt_sr_fp8") || name.starts_with("v_cvt_sr_bf8") ||
           name.starts_with("v_cvt_scalef32_pk_fp4");
}

std::string vop3_op_sel(const Inst& inst) {
    if (inst.op_sel == 0) {
        return "";
    }
    std::string text = " op_sel:[";
    for (unsigned i = 0; i < 3 && (inst.src[i] || selects_byte(inst.info->name)); ++i) {
        text += std::string(inst.op_sel >> i & 1 ? "1" : "0") + ",";
    }
    return text + (inst.op_sel >> 3 & 1 ? "1]" : "0]");
}

std::string bitop3(const Inst& inst) {
    const uint32_t table = is_bitop3(*inst.info) ? truth_table(inst.words) : 0;
    return table == 0 ? "" : " bitop3:" + (table <= 10 ? std::to_string(table) : hex(table));
}

std::string cache_policy(const Inst& inst) {
    std::string text;
    if (inst.target == Target::kGfx90a) {
        text += inst.glc ? " glc" : "";
        text += inst.slc ? " slc" : "";
        return text + (inst.nt ? " scc" : "");
    }
    text += inst.glc ? " sc0" : "";
    text += inst.nt ? " nt" : "";
    return text + (inst.slc ? " sc1" : "");
}

bool has_two_offsets(std::string_view name) {
    return name.find("read2") != name.npos || name.find("write2") != name.npos ||
           name.find("wrxchg2") != name.npos;
}

}  // namespace

std::string format_immediate(const Inst& inst) {
    std::string_view name = inst.info->name;
    uint32_t simm = static_cast<uint16_t>(inst.simm);
    if (name == "s_waitcnt") {
        return waitcnt(simm);
    }
    if (name.starts_with("s_getreg") || name.starts_with("s_setreg")) {
        return hwreg(simm);
    }
    if (name == "s_set_gpr_idx_on" || name == "s_set_gpr_idx_mode") {
        return gpr_index_modes(simm);
    }
    if (name.starts_with("s_sendmsg")) {
        return simm == 1 ? "sendmsg(MSG_INTERRUPT)" : std::to_string(simm);
    }
    if (inst.info->encoding == Encoding::kSopk) {
        return (inst.info->flags & kRelative) ? std::to_string(simm) : hex(simm);
    }
    if (inst.info->encoding != Encoding::kSopp) {
        return "";
    }
    static constexpr std::array<std::string_view, 8> kBare = {
        "s_endpgm", "s_barrier", "s_wakeup", "s_icache_inv",
        "s_set_gpr_idx_off", "s_ttracedata", "s_endpgm_saved", "s_endpgm_ordered_ps_done"};
    for (std::string_view bare : kBare) {
        if (name == bare) {
            return name == "s_endpgm" && simm ? std::to_string(simm) : "";
        }
    }
    return std::to_string(simm);
}

std::string format_vector_modifiers(const Inst& inst) {
    std::string text;
    if (inst.info->encoding == Encoding::kVop3p) {
        if (inst.info->flags & kPackedModifiers) {
            text += packed_modifiers(inst);
        }
        text += inst.cbsz ? " cbsz:" + std::to_string(inst.cbsz) : "";
        text += inst.abid ? " abid:" + std::to_string(inst.abid) : "";
        text += inst.blgp ? " blgp:" + std::to_string(inst.blgp) : "";
    } else {
        text += bitop3(inst);
        text += vop3_op_sel(inst);
    }
    text += inst.clamp ? " clamp" : "";
    static constexpr std::array<const char*, 4> kOmod = {"", " mul:2", " mul:4", " div:2"};
    text += kOmod[inst.omod & 3];
    if (inst.dpp.enabled) {
        text += dpp_modifiers(inst.dpp);
    }
    if (inst.sdwa.enabled) {
        text += sdwa_modifiers(inst);
    }
    return text;
}

std::string format_memory_modifiers(const Inst& inst) {
    std::string text;
    if (inst.info->encoding == Encoding::kMtbuf) {
        text += " format:[" + std::to_string(inst.dfmt) + "," + std::to_string(inst.nfmt) + "]";
    }
    text += inst.idxen ? " idxen" : "";
    text += inst.offen ? " offen" : "";
    if (inst.info->encoding == Encoding::kDs && has_two_offsets(inst.info->name)) {
        unsigned first = inst.offset & 255, second = inst.offset >> 8 & 255;
        text += first ? " offset0:" + std::to_string(first) : "";
        text += second ? " offset1:" + std::to_string(second) : "";
    } else if (inst.offset) {
        text += " offset:" + std::to_string(inst.offset);
    }
    text += inst.gds ? " gds" : "";
    text += cache_policy(inst);
    return text + (inst.lds ? " lds" : "");
}

}  // namespace asmevo::emulator
