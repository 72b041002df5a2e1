// Entry of the decoder, and the scalar encodings.
#include <algorithm>
#include <cstring>

#include "isa/decoder.h"
#include "isa/tables.h"

namespace asmevo::emulator {

bool Decoder::need(size_t dwords) {
    if (available_ < dwords) {
        return fail("instruction is cut off by the end of the code");
    }
    inst_.size_dwords = static_cast<uint8_t>(dwords);
    return true;
}

bool Decoder::lookup(Encoding encoding, unsigned opcode) {
    inst_.info = find_op(target_, encoding, static_cast<uint16_t>(opcode));
    if (!inst_.info) {
        return fail("unknown opcode for this target");
    }
    inst_.run = inst_.info->run;
    return true;
}

bool Decoder::take_literal() {
    size_t at = inst_.size_dwords;
    if (inst_.literal_dword != 0) {
        return true;  // both sources name the one literal
    }
    if (!need(at + 1)) {
        return false;
    }
    inst_.literal = words_[at];
    inst_.literal_dword = static_cast<uint8_t>(at);
    return true;
}

bool Decoder::sop2() {
    uint32_t w = words_[0];
    if (!lookup(Encoding::kSop2, bits(w, 23, 7))) {
        return false;
    }
    const OpInfo& info = *inst_.info;
    return scalar_destination(bits(w, 16, 7), info.dst[0], inst_.dst[0]) &&
           source(bits(w, 0, 8), info.src[0], inst_.src[0]) &&
           source(bits(w, 8, 8), info.src[1], inst_.src[1]);
}

bool Decoder::sopk() {
    uint32_t w = words_[0];
    if (!lookup(Encoding::kSopk, bits(w, 23, 5))) {
        return false;
    }
    const OpInfo& info = *inst_.info;
    inst_.simm = static_cast<int16_t>(bits(w, 0, 16));
    // The register field is the destination or, for compares and s_setreg, the source.
    return scalar_destination(bits(w, 16, 7), info.dst[0], inst_.dst[0]) &&
           scalar_destination(bits(w, 16, 7), info.src[0], inst_.src[0]) &&
           (!(info.flags & kLiteralK) || take_literal());
}

bool Decoder::sop1() {
    uint32_t w = words_[0];
    if (!lookup(Encoding::kSop1, bits(w, 8, 8))) {
        return false;
    }
    const OpInfo& info = *inst_.info;
    return scalar_destination(bits(w, 16, 7), info.dst[0], inst_.dst[0]) &&
           source(bits(w, 0, 8), info.src[0], inst_.src[0]);
}

bool Decoder::sopc() {
    uint32_t w = words_[0];
    if (!lookup(Encoding::kSopc, bits(w, 16, 7))) {
        return false;
    }
    const OpInfo& info = *inst_.info;
    inst_.simm = static_cast<int32_t>(bits(w, 8, 8));  // s_set_gpr_idx_on: mode bits instead of ssrc1
    return source(bits(w, 0, 8), info.src[0], inst_.src[0]) &&
           source(bits(w, 8, 8), info.src[1], inst_.src[1]);
}

bool Decoder::sopp() {
    uint32_t w = words_[0];
    inst_.simm = static_cast<int16_t>(bits(w, 0, 16));
    return lookup(Encoding::kSopp, bits(w, 16, 7));
}

bool Decoder::run() {
    if (available_ == 0) {
        return fail("instruction is cut off by the end of the code");
    }
    inst_ = Inst{};
    inst_.target = target_;
    inst_.size_dwords = 1;
    uint32_t w = words_[0];
    auto family = [&]() -> bool {
        if (!bit(w, 31)) {
            unsigned op = bits(w, 25, 6);
            return op == 0x3f ? vop1() : op == 0x3e ? vopc() : vop2();
        }
        if (bits(w, 30, 2) == 2) {
            switch (bits(w, 23, 7)) {
                case 0x7d: return sop1();
                case 0x7e: return sopc();
                case 0x7f: return sopp();
                default: return bits(w, 28, 4) == 0xb ? sopk() : sop2();
            }
        }
        switch (bits(w, 26, 6)) {
            case 0x30: return smem();
            case 0x34: return bits(w, 23, 9) == 0x1a7 ? vop3p() : vop3();
            case 0x36: return ds();
            case 0x37: return flat();
            case 0x38: return mubuf();
            case 0x3a: return mtbuf();
            case 0x3c: return mimg();
            default: return fail("unknown encoding");
        }
    };
    if (!family()) {
        return false;
    }
    std::memcpy(inst_.words, words_, sizeof(uint32_t) * inst_.size_dwords);
    return fill_spans(inst_, error_);
}

bool decode(Target target, const uint32_t* words, size_t available, Inst& out, std::string& error) {
    return Decoder(target, words, available, out, error).run();
}

}  // namespace asmevo::emulator
