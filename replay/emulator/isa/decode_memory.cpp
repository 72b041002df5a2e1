// Memory encodings: SMEM, DS, MUBUF, MTBUF, FLAT/GLOBAL/SCRATCH.
#include "isa/decoder.h"

namespace asmevo::emulator {
namespace {

constexpr unsigned kFieldOff = 0x7f;  // saddr: no scalar address

constexpr int32_t sign_extend(uint32_t value, unsigned width) {
    unsigned shift = 32 - width;
    return static_cast<int32_t>(value << shift) >> shift;
}

}  // namespace

bool Decoder::smem() {
    if (!need(2)) {
        return false;
    }
    uint32_t w = words_[0], w1 = words_[1];
    if (!lookup(Encoding::kSmem, bits(w, 18, 8))) {
        return false;
    }
    const OpInfo& info = *inst_.info;
    inst_.glc = bit(w, 16);
    bool has_sgpr = bit(w, 14), has_immediate = bit(w, 17);
    if (info.src[0] != Type::kNone) {
        inst_.src[0] = sgpr_operand(bits(w, 0, 6) * 2, info.src[0]);
        if (has_immediate) {
            inst_.offset = sign_extend(bits(w1, 0, 21), 21);
        }
        // Without an immediate and without SOE the low offset bits name the SGPR (GFX8 form).
        if (has_sgpr || !has_immediate) {
            unsigned code = has_sgpr ? bits(w1, 25, 7) : bits(w1, 0, 7);
            inst_.src[1] = sgpr_operand(code, Type::kB32);
        }
    }
    bool returns = !(info.flags & kReturnsWithGlc) || inst_.glc;
    return scalar_destination(bits(w, 6, 7), returns ? info.dst[0] : Type::kNone, inst_.dst[0]) &&
           scalar_destination(bits(w, 6, 7), info.src[2], inst_.src[2]);
}

bool Decoder::ds() {
    if (!need(2)) {
        return false;
    }
    uint32_t w = words_[0], w1 = words_[1];
    if (!lookup(Encoding::kDs, bits(w, 17, 8))) {
        return false;
    }
    const OpInfo& info = *inst_.info;
    bool acc = bit(w, 25);
    inst_.gds = bit(w, 16);
    inst_.offset = static_cast<int32_t>(bits(w, 0, 16));
    if (info.src[0] != Type::kNone) {
        inst_.src[0] = vgpr_operand(bits(w1, 0, 8), info.src[0]);
    }
    if (info.src[1] != Type::kNone) {
        inst_.src[1] = vgpr_operand(bits(w1, 8, 8), info.src[1], acc);
    }
    if (info.src[2] != Type::kNone) {
        inst_.src[2] = vgpr_operand(bits(w1, 16, 8), info.src[2], acc);
    }
    if (info.dst[0] != Type::kNone) {
        inst_.dst[0] = vgpr_operand(bits(w1, 24, 8), info.dst[0], acc);
    }
    return true;
}

bool Decoder::buffer_operands(uint32_t w1) {
    const OpInfo& info = *inst_.info;
    bool acc = bit(w1, 23);
    if (info.src[2] == Type::kNone) {
        return true;  // cache control: buffer_wbl2, buffer_inv
    }
    if (inst_.offen || inst_.idxen) {
        bool both = inst_.offen && inst_.idxen;
        inst_.src[0] = vgpr_operand(bits(w1, 0, 8), both ? Type::kB64 : Type::kB32);
    }
    unsigned vdata = bits(w1, 8, 8);
    if (info.src[1] != Type::kNone) {
        inst_.src[1] = vgpr_operand(vdata, info.src[1], acc);
    }
    bool returns = !(info.flags & kReturnsWithGlc) || inst_.glc;
    if (info.dst[0] != Type::kNone && returns && !inst_.lds) {
        inst_.dst[0] = vgpr_operand(vdata, info.dst[0], acc);
    }
    inst_.src[2] = sgpr_operand(bits(w1, 16, 5) * 4, info.src[2]);
    return source(bits(w1, 24, 8), Type::kB32, inst_.src[3]);
}

bool Decoder::mubuf() {
    if (!need(2)) {
        return false;
    }
    uint32_t w = words_[0];
    if (!lookup(Encoding::kMubuf, bits(w, 18, 7))) {
        return false;
    }
    inst_.offset = static_cast<int32_t>(bits(w, 0, 12));
    inst_.offen = bit(w, 12);
    inst_.idxen = bit(w, 13);
    inst_.glc = bit(w, 14);
    inst_.lds = bit(w, 16);
    // gfx940: bit 15 = sc1, bit 17 = nt; gfx90a: bit 15 = scc, bit 17 = slc.
    inst_.slc = bit(w, is_gfx940() ? 15 : 17);
    inst_.nt = bit(w, is_gfx940() ? 17 : 15);
    return buffer_operands(words_[1]);
}

bool Decoder::mtbuf() {
    if (!need(2)) {
        return false;
    }
    uint32_t w = words_[0], w1 = words_[1];
    if (!lookup(Encoding::kMtbuf, bits(w, 15, 4))) {
        return false;
    }
    inst_.offset = static_cast<int32_t>(bits(w, 0, 12));
    inst_.offen = bit(w, 12);
    inst_.idxen = bit(w, 13);
    inst_.glc = bit(w, 14);
    inst_.dfmt = static_cast<uint8_t>(bits(w, 19, 4));
    inst_.nfmt = static_cast<uint8_t>(bits(w, 23, 3));
    inst_.slc = bit(w1, is_gfx940() ? 21 : 22);
    inst_.nt = bit(w1, is_gfx940() ? 22 : 21);
    return buffer_operands(w1);
}

bool Decoder::mimg() {
    return need(2) && lookup(Encoding::kMimg, bits(words_[0], 18, 7));
}

bool Decoder::flat() {
    if (!need(2)) {
        return false;
    }
    uint32_t w = words_[0], w1 = words_[1];
    unsigned segment = bits(w, 14, 2), opcode = bits(w, 18, 7);
    constexpr Encoding kSegments[] = {Encoding::kFlat, Encoding::kScratch, Encoding::kGlobal};
    if (segment > 2) {
        return fail("reserved FLAT segment");
    }
    Encoding encoding = kSegments[segment];
    if (!lookup(encoding, opcode)) {
        return false;
    }
    const OpInfo& info = *inst_.info;
    bool acc = bit(w1, 23), bit13 = bit(w, 13);
    unsigned saddr = bits(w1, 16, 7);
    inst_.offset = sign_extend(bits(w, 0, 13), 13);
    inst_.glc = bit(w, 16);
    inst_.slc = bit(w, is_gfx940() ? 25 : 17);
    inst_.nt = bit(w, is_gfx940() ? 17 : 25);
    bool has_saddr = encoding != Encoding::kFlat && saddr != kFieldOff;
    if (encoding == Encoding::kScratch) {
        // gfx940: bit 13 says that vaddr counts (SVE); gfx90a: vaddr counts when saddr is off.
        bool has_vaddr = is_gfx940() ? bit13 : !has_saddr;
        inst_.lds = !is_gfx940() && bit13;
        if (has_vaddr) {
            inst_.src[0] = vgpr_operand(bits(w1, 0, 8), Type::kB32);
        }
        if (has_saddr) {
            inst_.src[2] = sgpr_operand(saddr, Type::kB32);
        }
    } else {
        inst_.lds = bit13;
        if (info.src[0] != Type::kNone) {
            inst_.src[0] = vgpr_operand(bits(w1, 0, 8), has_saddr ? Type::kB32 : Type::kB64);
        }
        if (has_saddr) {
            inst_.src[2] = sgpr_operand(saddr, Type::kB64);
        }
    }
    if (info.src[1] != Type::kNone) {
        inst_.src[1] = vgpr_operand(bits(w1, 8, 8), info.src[1], acc);
    }
    bool returns = !(info.flags & kReturnsWithGlc) || inst_.glc;
    if (info.dst[0] != Type::kNone && returns && !inst_.lds) {
        inst_.dst[0] = vgpr_operand(bits(w1, 24, 8), info.dst[0], acc);
    }
    return true;
}

}  // namespace asmevo::emulator
