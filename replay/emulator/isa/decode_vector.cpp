// Vector encodings: VOP1, VOP2, VOPC and their SDWA, DPP and VOP3 forms, VOP3P and its matrix (MAI) form.
#include "isa/bitop3.h"
#include "isa/decoder.h"

namespace asmevo::emulator {
namespace {

constexpr unsigned kVccCode = 106;
// VOP3 opcode ranges that hold the short encodings (CDNA3 ISA, VOP3A).
constexpr unsigned kVop3Vop2 = 0x100, kVop3Vop1 = 0x140, kVop3Only = 0x1c0;
// VOP3P opcodes with the MAI layout: everything from 0x34 up, and gfx950's f8f6f4 forms.
constexpr bool is_mai(unsigned opcode) {
    return opcode >= 0x34 || opcode == 0x2d || opcode == 0x2e;
}
constexpr unsigned kAccvgprRead = 0x58, kAccvgprWrite = 0x59, kAccvgprMov = 0x52;
// v_fma_mix_f32, v_fma_mixlo_f16, v_fma_mixhi_f16: op_sel_hi chooses f16 or f32, neg_hi is abs.
constexpr bool is_mix(unsigned opcode) { return opcode >= 0x20 && opcode <= 0x22; }

// Registers of an f8f6f4 matrix by format (cbsz/blgp): 8-bit, 6-bit, 4-bit elements.
constexpr uint8_t f8f6f4_dwords(unsigned format) {
    return format <= 1 ? 8 : format <= 3 ? 6 : 4;
}

}  // namespace

bool Decoder::fill_implicit_vcc() {
    for (int i = 0; i < 2; ++i) {
        if (inst_.info->dst[i] == Type::kMask) {
            inst_.dst[i] = sgpr_operand(kVccCode, Type::kMask);
        }
    }
    for (int i = 0; i < 4; ++i) {
        if (inst_.info->src[i] == Type::kMask) {
            inst_.src[i] = sgpr_operand(kVccCode, Type::kMask);
        }
    }
    return true;
}

bool Decoder::short_source0(unsigned code) {
    bool is_compare = inst_.info->encoding == Encoding::kVopc;
    if (code == kCodeSdwa) {
        return sdwa(is_compare);
    }
    if (code == kCodeDpp) {
        return dpp();
    }
    return source(code, inst_.info->src[0], inst_.src[0]);
}

bool Decoder::sdwa(bool is_compare) {
    if (!need(2)) {
        return false;
    }
    uint32_t w = words_[1];
    inst_.sdwa.enabled = true;
    if (is_compare) {
        if (bit(w, 15)) {
            inst_.dst[0] = sgpr_operand(bits(w, 8, 7), Type::kMask);
        }
    } else {
        inst_.sdwa.dst_sel = static_cast<uint8_t>(bits(w, 8, 3));
        inst_.sdwa.dst_unused = static_cast<uint8_t>(bits(w, 11, 2));
        inst_.clamp = bit(w, 13);
        inst_.omod = static_cast<uint8_t>(bits(w, 14, 2));
    }
    // src1's register number stands in the short word; only its kind (bit 31) is in this one.
    unsigned src1 = bits(words_[0], 9, 8);
    if (!source(bits(w, 0, 8) + (bit(w, 23) ? 0 : kCodeVgpr), inst_.info->src[0], inst_.src[0]) ||
        (inst_.info->encoding != Encoding::kVop1 &&
         !source(src1 + (bit(w, 31) ? 0 : kCodeVgpr), inst_.info->src[1], inst_.src[1]))) {
        return false;
    }
    for (int i = 0; i < 2; ++i) {
        if (!inst_.src[i] || inst_.info->src[i] == Type::kMask) {
            continue;
        }
        Operand& operand = inst_.src[i];
        unsigned at = i == 0 ? 16 : 24;
        operand.sdwa_sel = static_cast<uint8_t>(bits(w, at, 3));
        operand.sext = bit(w, at + 3);
        operand.neg = bit(w, at + 4);
        operand.abs = bit(w, at + 5);
        if (operand.sdwa_sel > kDword) {
            return fail("reserved SDWA source select");
        }
    }
    if (inst_.sdwa.dst_sel > kDword || inst_.sdwa.dst_unused > 2) {
        return fail("reserved SDWA destination select");
    }
    return true;
}

bool Decoder::dpp() {
    if (!need(2)) {
        return false;
    }
    if (inst_.info->encoding == Encoding::kVopc) {
        return fail("VOPC has no DPP form on this target");
    }
    uint32_t w = words_[1];
    inst_.dpp.enabled = true;
    inst_.dpp.control = static_cast<uint16_t>(bits(w, 8, 9));
    inst_.dpp.bound_ctrl = bit(w, 19);
    inst_.dpp.bank_mask = static_cast<uint8_t>(bits(w, 24, 4));
    inst_.dpp.row_mask = static_cast<uint8_t>(bits(w, 28, 4));
    if (!source(bits(w, 0, 8) + kCodeVgpr, inst_.info->src[0], inst_.src[0])) {
        return false;
    }
    inst_.src[0].neg = bit(w, 20);
    inst_.src[0].abs = bit(w, 21);
    inst_.src[1].neg = bit(w, 22);
    inst_.src[1].abs = bit(w, 23);
    return true;
}

bool Decoder::vop1() {
    uint32_t w = words_[0];
    if (!lookup(Encoding::kVop1, bits(w, 9, 8))) {
        return false;
    }
    const OpInfo& info = *inst_.info;
    bool is_acc = info.opcode == kAccvgprMov;
    if (info.flags & kDstScalar) {
        if (!scalar_destination(bits(w, 17, 8), info.dst[0], inst_.dst[0])) {
            return false;
        }
    } else if (info.dst[0] != Type::kNone) {
        inst_.dst[0] = vgpr_operand(bits(w, 17, 8), info.dst[0], is_acc);
    }
    if (!short_source0(bits(w, 0, 9))) {
        return false;
    }
    if (is_acc && inst_.src[0].is_vgpr()) {
        inst_.src[0].index += 256;
    }
    return true;
}

bool Decoder::vop2() {
    uint32_t w = words_[0];
    if (!lookup(Encoding::kVop2, bits(w, 25, 6))) {
        return false;
    }
    const OpInfo& info = *inst_.info;
    fill_implicit_vcc();
    inst_.dst[0] = vgpr_operand(bits(w, 17, 8), info.dst[0]);
    if (info.flags & kLiteralK) {
        // v_madmk: src1 of the row is K, the register field is its third source; v_madak: K is the third source.
        bool k_is_last = info.opcode == 0x18 || info.opcode == 0x25;
        int k = k_is_last ? 2 : 1, reg = k_is_last ? 1 : 2;
        if (!source(bits(w, 0, 9), info.src[0], inst_.src[0]) ||
            !source(kCodeLiteral, info.src[k], inst_.src[k])) {
            return false;
        }
        inst_.src[reg] = vgpr_operand(bits(w, 9, 8), info.src[reg]);
        return true;
    }
    unsigned code = bits(w, 0, 9);
    if (code != kCodeSdwa) {
        inst_.src[1] = vgpr_operand(bits(w, 9, 8), info.src[1]);
    }
    return short_source0(code);
}

bool Decoder::vopc() {
    uint32_t w = words_[0];
    if (!lookup(Encoding::kVopc, bits(w, 17, 8))) {
        return false;
    }
    fill_implicit_vcc();
    unsigned code = bits(w, 0, 9);
    if (code != kCodeSdwa) {
        inst_.src[1] = vgpr_operand(bits(w, 9, 8), inst_.info->src[1]);
    }
    return short_source0(code);
}

bool Decoder::vop3() {
    if (!need(2)) {
        return false;
    }
    uint32_t w = words_[0], w1 = words_[1];
    unsigned opcode = bits(w, 16, 10);
    bool found = opcode >= kVop3Only   ? lookup(Encoding::kVop3, opcode)
                 : opcode >= kVop3Vop1 ? lookup(Encoding::kVop1, opcode - kVop3Vop1)
                 : opcode >= kVop3Vop2 ? lookup(Encoding::kVop2, opcode - kVop3Vop2)
                                       : lookup(Encoding::kVopc, opcode);
    if (!found) {
        return false;
    }
    const OpInfo& info = *inst_.info;
    if (info.flags & kNoVop3) {
        return fail("operation has no VOP3 form");
    }
    inst_.is_vop3 = opcode < kVop3Only;
    inst_.clamp = bit(w, 15);
    inst_.omod = static_cast<uint8_t>(bits(w1, 27, 2));
    bool is_vop3b = info.dst[1] == Type::kMask;
    unsigned vdst = bits(w, 0, 8);
    if (info.dst[0] == Type::kMask || (info.flags & kDstScalar)) {
        if (!scalar_destination(vdst, info.dst[0], inst_.dst[0])) {
            return false;
        }
    } else if (info.dst[0] != Type::kNone) {
        inst_.dst[0] = vgpr_operand(vdst, info.dst[0]);
    }
    if (is_vop3b) {
        inst_.dst[1] = sgpr_operand(bits(w, 8, 7), Type::kMask);
    } else {
        inst_.op_sel = static_cast<uint8_t>(bits(w, 11, 4));
    }
    for (unsigned i = 0; i < 3; ++i) {
        unsigned code = bits(w1, 9 * i, 9);
        if (info.src[i] != Type::kNone && code == kCodeLiteral) {
            return fail("VOP3 takes no literal on this target");
        }
        if (!source(code, info.src[i], inst_.src[i])) {
            return false;
        }
        inst_.src[i].neg = bit(w1, 29 + i);
        inst_.src[i].abs = !is_vop3b && bit(w, 8 + i);
        inst_.src[i].op_sel = !is_vop3b && bit(w, 11 + i);
    }
    if (is_bitop3(info)) {
        inst_.omod = 0;
        for (Operand& operand : inst_.src) {
            operand.neg = operand.abs = false;
        }
    }
    return true;
}

bool Decoder::vop3p() {
    if (!need(2)) {
        return false;
    }
    unsigned opcode = bits(words_[0], 16, 7);
    if (!lookup(Encoding::kVop3p, opcode)) {
        return false;
    }
    return is_mai(opcode) ? vop3p_mai() : vop3p_packed();
}

bool Decoder::vop3p_packed() {
    uint32_t w = words_[0], w1 = words_[1];
    const OpInfo& info = *inst_.info;
    inst_.clamp = bit(w, 15);
    inst_.op_sel = static_cast<uint8_t>(bits(w, 11, 3));
    if (info.dst[0] != Type::kNone) {
        inst_.dst[0] = vgpr_operand(bits(w, 0, 8), info.dst[0]);
    }
    bool mix = is_mix(info.opcode);
    for (unsigned i = 0; i < 3; ++i) {
        unsigned code = bits(w1, 9 * i, 9);
        bool select_high = i == 2 ? bit(w, 14) : bit(w1, 27 + i);
        Type type = info.src[i];
        if (type != Type::kNone && code == kCodeLiteral) {
            return fail("VOP3P takes no literal on this target");
        }
        if (mix && type != Type::kNone) {
            type = select_high ? Type::kF16 : Type::kF32;
        }
        if (!source(code, type, inst_.src[i])) {
            return false;
        }
        inst_.src[i].neg = bit(w1, 29 + i);
        inst_.src[i].op_sel = bit(w, 11 + i);
        inst_.src[i].op_sel_hi = select_high;
        inst_.src[i].neg_hi = !mix && bit(w, 8 + i);
        inst_.src[i].abs = mix && bit(w, 8 + i);
    }
    return true;
}

bool Decoder::vop3p_mai() {
    uint32_t w = words_[0], w1 = words_[1];
    const OpInfo& info = *inst_.info;
    bool acc_cd = bit(w, 15);
    bool acc_src[3] = {bit(w1, 27), bit(w1, 28), acc_cd};
    if (info.opcode != kAccvgprRead && info.opcode != kAccvgprWrite) {
        inst_.cbsz = static_cast<uint8_t>(bits(w, 8, 3));
        inst_.abid = static_cast<uint8_t>(bits(w, 11, 4));
        inst_.blgp = static_cast<uint8_t>(bits(w1, 29, 3));
    }
    bool writes_acc = info.opcode == kAccvgprWrite || (acc_cd && info.opcode != kAccvgprRead);
    inst_.dst[0] = vgpr_operand(bits(w, 0, 8), info.dst[0], writes_acc);
    for (unsigned i = 0; i < 3; ++i) {
        unsigned code = bits(w1, 9 * i, 9);
        if (info.src[i] != Type::kNone && code == kCodeLiteral) {
            return fail("VOP3P takes no literal on this target");
        }
        if (!source(code, info.src[i], inst_.src[i])) {
            return false;
        }
        // v_accvgpr_write's source is never an accumulation register, whatever the bits say (LLVM sets them).
        bool accumulation = info.opcode == kAccvgprWrite  ? false
                            : info.opcode == kAccvgprRead ? true
                                                          : acc_src[i];
        // SMFMAC: src2 is the index, always an architectural register.
        if (i == 2 && (info.flags & kDstIsRead)) {
            accumulation = false;
        }
        if (inst_.src[i].is_vgpr() && accumulation) {
            inst_.src[i].index += 256;
        }
    }
    if (info.opcode == 0x2d || info.opcode == 0x2e) {
        inst_.src[0].dwords = f8f6f4_dwords(inst_.cbsz);
        inst_.src[1].dwords = f8f6f4_dwords(inst_.blgp);
    }
    return true;
}

}  // namespace asmevo::emulator
