// Operands, constants and register spans.
#include <algorithm>
#include <array>
#include <bit>

#include "isa/decoder.h"

namespace asmevo::emulator {
namespace {

constexpr uint16_t kVcc = 106, kM0 = 124, kExec = 126;
constexpr unsigned kScalarLimit = 128, kArchLimit = 256, kVectorLimit = 512;

// 0.5, -0.5, 1, -1, 2, -2, 4, -4, 1/(2*pi)
constexpr std::array<uint64_t, 9> kDoubles = {
    0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000,
    0xbff0000000000000, 0x4000000000000000, 0xc000000000000000,
    0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882};
constexpr std::array<uint32_t, 9> kSingles = {0x3f000000, 0xbf000000, 0x3f800000,
                                              0xbf800000, 0x40000000, 0xc0000000,
                                              0x40800000, 0xc0800000, 0x3e22f983};
constexpr std::array<uint16_t, 9> kHalves = {0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000,
                                             0xc000, 0x4400, 0xc400, 0x3118};

bool is_64bit_scalar_type(Type type) {
    return type == Type::kB64 || type == Type::kF64 || type == Type::kMask;
}

class Spans {
  public:
    Spans(RegSpan* spans, uint8_t& count) : spans_(spans), count_(count) {}

    void add(const Operand& operand) {
        if (operand.kind == OperandKind::kVgpr) {
            add(RegSpan::kVector, operand.index, operand.dwords);
        } else if (operand.kind == OperandKind::kSgpr) {
            add(RegSpan::kScalar, operand.index, operand.dwords);
        }
    }
    void add(RegSpan::File file, uint16_t first, uint8_t count) {
        if (count_ < kMaxSpans && count > 0) {
            spans_[count_++] = RegSpan{file, first, count};
        }
    }

  private:
    RegSpan* spans_;
    uint8_t& count_;
};

void add_implicit(Spans& spans, uint32_t flags, uint32_t vcc, uint32_t exec, uint32_t m0) {
    if (flags & vcc) {
        spans.add(RegSpan::kScalar, kVcc, 2);
    }
    if (flags & exec) {
        spans.add(RegSpan::kScalar, kExec, 2);
    }
    if (flags & m0) {
        spans.add(RegSpan::kScalar, kM0, 1);
    }
}

// v_swap_b32, v_permlane16_swap_b32, v_permlane32_swap_b32 write their source too.
bool swaps(const OpInfo& info) {
    return info.encoding == Encoding::kVop1 &&
           (info.opcode == 0x51 || info.opcode == 0x59 || info.opcode == 0x5a);
}

WaitClass wait_class(const Inst& inst) {
    switch (inst.info->category) {
        // Cache control (buffer_inv, buffer_wbl2) is left out, as in LLVM's SIInsertWaitcnts.
        case Category::kVmemLoad: case Category::kVmemStore: case Category::kVmemAtomic:
            return WaitClass::kVm;
        case Category::kFlatLoad: case Category::kFlatStore: case Category::kFlatAtomic:
            return WaitClass::kFlat;
        case Category::kLds: case Category::kLdsNoReturn:
            return WaitClass::kLds;
        case Category::kSmem:
            return WaitClass::kSmem;
        case Category::kMessage:
            return WaitClass::kMessage;
        default:
            return WaitClass::kNone;
    }
}

bool check_span(const RegSpan& span, Inst& inst, std::string& error) {
    unsigned end = span.first + span.count;
    if (span.file == RegSpan::kScalar) {
        if (end > kScalarLimit) {
            error = "scalar register tuple leaves the register file";
            return false;
        }
        return true;
    }
    bool is_acc = span.first >= kArchLimit;
    if (end > (is_acc ? kVectorLimit : kArchLimit)) {
        error = "vector register tuple leaves the register file";
        return false;
    }
    // gfx90a and later: VGPR tuples start at an even register (LLVM FeatureRequiresAlignedVGPRs).
    if (span.count > 1 && (span.first & 1)) {
        error = "vector register tuple must start at an even register";
        return false;
    }
    uint16_t& needed = is_acc ? inst.acc_vgprs : inst.arch_vgprs;
    needed = std::max<uint16_t>(needed, static_cast<uint16_t>(is_acc ? end - kArchLimit : end));
    return true;
}

}  // namespace

uint64_t inline_constant(unsigned code, Type type) {
    if (code <= kCodeInlineLast) {
        int64_t value = code <= 192 ? static_cast<int64_t>(code) - 128 : 192 - static_cast<int64_t>(code);
        // Integers are sign-extended to the operand's width; 16-bit operands see a 32-bit value.
        return is_64bit_scalar_type(type) ? static_cast<uint64_t>(value)
                                          : static_cast<uint32_t>(value);
    }
    unsigned at = code - kCodeFloatFirst;
    switch (type) {
        case Type::kB64: case Type::kF64: case Type::kMask:
            return kDoubles[at];
        case Type::kF16: case Type::kPkF16:
            // The half stands in the low 16 bits, zeros above (LLVM getInlineEncodingV216).
            return kHalves[at];
        case Type::kBf16: case Type::kPkBf16:
            return kSingles[at] >> 16;
        default:
            return kSingles[at];
    }
}

uint64_t literal_constant(uint32_t literal, Type type) {
    // A double takes its high half from the literal; 64-bit integers are zero-extended (CDNA3 ISA 6.2 "Literals").
    return type == Type::kF64 ? static_cast<uint64_t>(literal) << 32 : literal;
}

Operand vgpr_operand(unsigned number, Type type, bool accumulation) {
    Operand operand;
    operand.kind = OperandKind::kVgpr;
    operand.type = type;
    operand.index = static_cast<uint16_t>(number + (accumulation ? kArchLimit : 0));
    operand.dwords = dword_count(type);
    return operand;
}

Operand sgpr_operand(unsigned code, Type type) {
    Operand operand;
    operand.kind = OperandKind::kSgpr;
    operand.type = type;
    operand.index = static_cast<uint16_t>(code);
    operand.dwords = dword_count(type);
    return operand;
}

bool Decoder::source(unsigned code, Type type, Operand& out) {
    if (type == Type::kNone) {
        return true;
    }
    if (code >= kCodeVgpr) {
        out = vgpr_operand(code - kCodeVgpr, type);
        return true;
    }
    if (code < kScalarLimit) {
        out = sgpr_operand(code, type);
        return true;
    }
    out = Operand{};
    out.type = type;
    out.index = static_cast<uint16_t>(code);
    out.dwords = dword_count(type);
    out.kind = OperandKind::kConst;
    if (code <= kCodeInlineLast || (code >= kCodeFloatFirst && code <= kCodeFloatLast)) {
        out.constant = inline_constant(code, type);
        return true;
    }
    if (code == kCodeLiteral) {
        if (!take_literal()) {
            return false;
        }
        out.constant = literal_constant(inst_.literal, type);
        return true;
    }
    if ((code >= 235 && code <= 238) || (code >= 251 && code <= 253)) {
        out.kind = OperandKind::kSpecial;
        return true;
    }
    return fail("reserved source operand code");
}

bool Decoder::scalar_destination(unsigned code, Type type, Operand& out) {
    if (type == Type::kNone) {
        return true;
    }
    if (code >= kScalarLimit) {
        return fail("destination is not a scalar register");
    }
    out = sgpr_operand(code, type);
    return true;
}

bool fill_spans(Inst& inst, std::string& error) {
    const OpInfo& info = *inst.info;
    inst.wait_class = wait_class(inst);
    inst.lds_shape = lds_shape(inst);
    Spans reads(inst.reads, inst.read_count), writes(inst.writes, inst.write_count);
    for (const Operand& operand : inst.src) {
        reads.add(operand);
    }
    for (const Operand& operand : inst.dst) {
        writes.add(operand);
    }
    bool keeps_part = inst.sdwa.enabled && inst.sdwa.dst_unused == 2;
    if ((info.flags & kDstIsRead) || keeps_part) {
        reads.add(inst.dst[0]);
    }
    if (swaps(info)) {
        writes.add(inst.src[0]);
        reads.add(inst.dst[0]);
    }
    add_implicit(reads, info.flags, kReadsVcc, kReadsExec, kReadsM0);
    if (inst.lds && !(info.flags & kReadsM0)) {
        reads.add(RegSpan::kScalar, kM0, 1);  // LDS-DMA: M0 holds the LDS address
    }
    add_implicit(writes, info.flags, kWritesVcc, kWritesExec, kWritesM0);
    for (unsigned i = 0; i < inst.read_count; ++i) {
        if (!check_span(inst.reads[i], inst, error)) {
            return false;
        }
    }
    for (unsigned i = 0; i < inst.write_count; ++i) {
        if (!check_span(inst.writes[i], inst, error)) {
            return false;
        }
    }
    return true;
}

}  // namespace asmevo::emulator
