// Assembly text of a decoded instruction, in LLVM's syntax.
#include "isa/format.h"

#include <array>
#include <cstdio>
#include <string_view>

namespace asmevo::emulator {
namespace {

std::string hex(uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

const char* pair_name(unsigned code) {
    switch (code) {
        case 102: return "flat_scratch";
        case 104: return "xnack_mask";
        case 106: return "vcc";
        case 126: return "exec";
        default: return nullptr;
    }
}

std::string scalar_name(unsigned code, unsigned count) {
    const char* pair = pair_name(code & ~1u);
    if (pair) {
        return count == 2 ? pair : std::string(pair) + ((code & 1) ? "_hi" : "_lo");
    }
    if (code == 124) {
        return "m0";
    }
    std::string_view file = code >= 108 ? "ttmp" : "s";
    unsigned first = code >= 108 ? code - 108 : code;
    std::string text(file);
    if (count == 1) {
        return text + std::to_string(first);
    }
    return text + "[" + std::to_string(first) + ":" + std::to_string(first + count - 1) + "]";
}

std::string special_name(unsigned code) {
    switch (code) {
        case 235: return "src_shared_base";
        case 236: return "src_shared_limit";
        case 237: return "src_private_base";
        case 238: return "src_private_limit";
        case 251: return "src_vccz";
        case 252: return "src_execz";
        case 253: return "src_scc";
        default: return "?";
    }
}

std::string constant_text(const Operand& operand, const Inst& inst) {
    static constexpr std::array<const char*, 8> kFloats = {"0.5", "-0.5", "1.0", "-1.0",
                                                           "2.0", "-2.0", "4.0", "-4.0"};
    unsigned code = operand.index;
    if (code == 255) {
        return hex(inst.literal);
    }
    if (code == 248) {
        bool is_wide = operand.type == Type::kF64 || operand.type == Type::kB64;
        bool is_half = operand.type == Type::kF16 || operand.type == Type::kPkF16;
        return is_wide ? "0.15915494309189532" : is_half ? "0.15915494" : "0.15915494";
    }
    if (code >= 240) {
        return kFloats[code - 240];
    }
    int value = code <= 192 ? static_cast<int>(code) - 128 : 192 - static_cast<int>(code);
    return std::to_string(value);
}

std::string with_modifiers(const Operand& operand, const Inst& inst) {
    std::string text = format_operand(operand, inst);
    if (operand.sext) {
        text = "sext(" + text + ")";
    }
    if (operand.abs) {
        text = "|" + text + "|";
    }
    // Packed operations list their negations (neg_lo, neg_hi); v_fma_mix and its kin show them at the operand.
    bool is_packed = inst.info->encoding == Encoding::kVop3p &&
                     (inst.info->flags & kPackedModifiers) && !is_mix(inst);
    if (operand.neg && !is_packed) {
        text = operand.kind == OperandKind::kConst && !operand.abs ? "neg(" + text + ")" : "-" + text;
    }
    return text;
}

std::string suffix(const Inst& inst) {
    Encoding encoding = inst.info->encoding;
    bool is_short = encoding == Encoding::kVop1 || encoding == Encoding::kVop2 ||
                    encoding == Encoding::kVopc;
    bool has_operands = inst.dst[0] || inst.src[0];
    if (!is_short || !has_operands) {
        return "";
    }
    if (inst.sdwa.enabled) {
        return "_sdwa";
    }
    if (inst.dpp.enabled) {
        return "_dpp";
    }
    if (inst.is_vop3) {
        return "_e64";
    }
    return (inst.info->flags & (kNoVop3 | kDstScalar)) ? "" : "_e32";
}

class Text {
  public:
    explicit Text(const Inst& inst) : inst_(inst), out_(inst.info->name) {
        out_ += suffix(inst);
    }
    void add(const std::string& operand) {
        if (operand.empty()) {
            return;
        }
        out_ += is_first_ ? " " : ", ";
        out_ += operand;
        is_first_ = false;
    }
    void add(const Operand& operand) {
        if (operand) {
            add(with_modifiers(operand, inst_));
        }
    }
    std::string finish(const std::string& modifiers) { return out_ + modifiers; }

  private:
    const Inst& inst_;
    std::string out_;
    bool is_first_ = true;
};

std::string format_smem(const Inst& inst) {
    Text text(inst);
    if (std::string_view(inst.info->name).starts_with("s_atc_probe")) {
        text.add(std::to_string(inst.words[0] >> 6 & 0x7f));  // access flags instead of a register
    }
    text.add(inst.src[2] ? inst.src[2] : inst.dst[0]);
    text.add(inst.src[0]);
    std::string modifiers;
    if (inst.src[1]) {
        text.add(inst.src[1]);
        if (inst.words[0] & (1u << 17)) {
            modifiers = " offset:" + hex(static_cast<uint32_t>(inst.offset));
        }
    } else if (inst.src[0]) {
        text.add(inst.offset < 0 ? "-" + hex(static_cast<uint32_t>(-inst.offset))
                                 : hex(static_cast<uint32_t>(inst.offset)));
    }
    return text.finish(modifiers + (inst.glc ? " glc" : ""));
}

std::string format_memory(const Inst& inst) {
    Encoding encoding = inst.info->encoding;
    Text text(inst);
    bool is_buffer = encoding == Encoding::kMubuf || encoding == Encoding::kMtbuf;
    if (is_buffer) {
        // One register field: the data of a store or atomic, else what is loaded.
        text.add(inst.src[1] ? inst.src[1] : inst.dst[0]);
        if (inst.src[2]) {
            text.add(inst.src[0] ? format_operand(inst.src[0], inst) : std::string("off"));
        }
        text.add(inst.src[2]);
        text.add(inst.src[3]);
    } else if (encoding == Encoding::kDs) {
        text.add(inst.dst[0]);
        text.add(inst.src[0]);
        text.add(inst.src[1]);
        text.add(inst.src[2]);
    } else {
        bool is_flat = encoding == Encoding::kFlat;
        text.add(inst.dst[0]);
        if (inst.src[0]) {
            text.add(inst.src[0]);
        } else if (!is_flat) {
            text.add(std::string("off"));
        }
        text.add(inst.src[1]);
        if (!is_flat) {
            text.add(inst.src[2] ? format_operand(inst.src[2], inst) : std::string("off"));
        }
    }
    return text.finish(format_memory_modifiers(inst));
}

std::string format_vector(const Inst& inst) {
    Text text(inst);
    text.add(inst.dst[0]);
    text.add(inst.dst[1]);
    for (const Operand& operand : inst.src) {
        text.add(operand);
    }
    return text.finish(format_vector_modifiers(inst));
}

}  // namespace

std::string format_register(RegSpan::File file, unsigned first, unsigned count) {
    if (file == RegSpan::kScalar) {
        return scalar_name(first, count);
    }
    std::string text = first >= 256 ? "a" : "v";
    first &= 255;
    if (count == 1) {
        return text + std::to_string(first);
    }
    return text + "[" + std::to_string(first) + ":" + std::to_string(first + count - 1) + "]";
}

std::string format_operand(const Operand& operand, const Inst& inst) {
    switch (operand.kind) {
        case OperandKind::kVgpr:
            return format_register(RegSpan::kVector, operand.index, operand.dwords);
        case OperandKind::kSgpr:
            return format_register(RegSpan::kScalar, operand.index, operand.dwords);
        case OperandKind::kConst:
            return constant_text(operand, inst);
        case OperandKind::kSpecial:
            return special_name(operand.index);
        case OperandKind::kNone:
            break;
    }
    return "";
}

std::string format(const Inst& inst) {
    if (!inst.info) {
        return "(not decoded)";
    }
    switch (inst.info->encoding) {
        case Encoding::kSop2: case Encoding::kSop1: case Encoding::kSopc:
        case Encoding::kSopk: case Encoding::kSopp: {
            Text text(inst);
            bool setreg = inst.info->encoding == Encoding::kSopk && !inst.dst[0] &&
                          (inst.info->flags & kWritesMode);
            std::string immediate = format_immediate(inst);
            text.add(inst.dst[0]);
            if (setreg) {
                text.add(immediate);
                text.add(inst.src[0]);
                if (inst.info->flags & kLiteralK) {
                    auto value = static_cast<int32_t>(inst.literal);
                    text.add(value >= -16 && value <= 64 ? std::to_string(value) : hex(inst.literal));
                }
                return text.finish("");
            }
            text.add(inst.src[0]);
            text.add(inst.src[1]);
            text.add(immediate);
            return text.finish("");
        }
        case Encoding::kSmem:
            return format_smem(inst);
        case Encoding::kDs: case Encoding::kMubuf: case Encoding::kMtbuf:
        case Encoding::kFlat: case Encoding::kGlobal: case Encoding::kScratch:
            return format_memory(inst);
        case Encoding::kMimg:
            return inst.info->name;
        default:
            return format_vector(inst);
    }
}

}  // namespace asmevo::emulator
