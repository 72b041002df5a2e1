// Undefined bits through the scalar unit, and the branches that they may decide.
#include <bit>
#include <string_view>

#include "exec/checks/undefined/undefined_tracking.h"

namespace asmevo::emulator {
namespace {

struct Bits {
    uint64_t value = 0, undefined = 0;
};

Bits fetch_scalar(const Wave& wave, const WaveShadow& shadow, const Operand& operand, bool scc_undefined) {
    Bits bits;
    const bool is_wide = operand.dwords == 2;
    bits.value = is_wide ? read_scalar64(wave, operand) : read_scalar32(wave, operand);
    if (operand.is_sgpr() && operand.index < kExecCode) {
        bits.undefined = is_wide ? shadow.wave.read64(operand.index) : shadow.wave.sgpr[operand.index];
    } else if (operand.kind == OperandKind::kSpecial && operand.index == 253) {
        bits.undefined = scc_undefined;
    }
    return bits;
}

bool has(std::string_view name, std::string_view part) { return name.find(part) != name.npos; }

/// AND of two, after the inversions that the operation makes; an undefined bit stays one when inverted.
uint64_t and_bits(const Bits& a, const Bits& b) {
    return (a.undefined & b.undefined) | (a.undefined & b.value) | (b.undefined & a.value);
}
Bits inverted(const Bits& a) { return {~a.value, a.undefined}; }

uint64_t all_if(bool condition) { return condition ? ~uint64_t{0} : 0; }

/// A bitwise operation of two operands, or none. Inverting a result changes neither which bits are undefined nor, for the
/// caller, whether a defined one is among the others.
bool bitwise(std::string_view name, Bits a, Bits b, Bits& out) {
    if (has(name, "andn1") || has(name, "orn1")) {
        a = inverted(a);
    } else if (has(name, "andn2") || has(name, "orn2")) {
        b = inverted(b);
    }
    if (name.starts_with("s_and") || name.starts_with("s_nand_")) {
        out = {a.value & b.value, and_bits(a, b)};
    } else if (name.starts_with("s_or") || name.starts_with("s_nor_")) {
        out = {a.value | b.value, and_bits(inverted(a), inverted(b))};
    } else if (name.starts_with("s_xor_") || name.starts_with("s_xnor_")) {
        out = {a.value ^ b.value, a.undefined | b.undefined};
    } else {
        return false;
    }
    if (name.starts_with("s_n") || name.starts_with("s_xn")) {
        out.value = ~out.value;
    }
    return true;
}

/// Whether it is unknown that a result is zero: a defined one decides.
bool is_zero_unknown(const Bits& result) {
    return result.undefined != 0 && (result.value & ~result.undefined) == 0;
}

bool shifted(std::string_view name, const Bits& a, const Bits& b, bool is_wide, uint64_t& out) {
    const unsigned amount = static_cast<unsigned>(b.value) & (is_wide ? 63 : 31);
    if (b.undefined != 0) {
        return false;
    }
    if (name.starts_with("s_lshl_b")) {
        out = a.undefined << amount;
    } else if (name.starts_with("s_lshr_b")) {
        out = a.undefined >> amount;
    } else if (name.starts_with("s_ashr_i")) {
        const uint64_t wide = is_wide ? a.undefined
                                      : static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(a.undefined)));
        out = static_cast<uint64_t>(static_cast<int64_t>(wide) >> amount);
    } else if (name == "s_bfe_u32") {
        const unsigned first = b.value & 31, width = b.value >> 16 & 127;
        out = a.undefined >> first & (width >= 32 ? 0xffffffffull : (uint64_t{1} << width) - 1);
    } else {
        return false;
    }
    return true;
}

}  // namespace

void UndefinedTracker::write_scalar(Step& step, uint64_t undefined, int which) {
    const Operand& dst = step.inst.dst[which];
    if (!dst.is_sgpr()) {
        return;
    }
    if (dst.index >= kExecCode) {
        const uint64_t bits = dst.dwords == 2 ? undefined : undefined & 0xffffffff;
        check_exec(step, dst.index == kExecCode ? bits : bits << 32);
        return;
    }
    Wave& shadow = step.shadow.wave;
    dst.dwords == 2 ? shadow.write64(dst.index, undefined)
                    : void(shadow.sgpr[dst.index] = static_cast<uint32_t>(undefined));
}

void UndefinedTracker::flow_scalar(Step& step) {
    const Inst& inst = step.inst;
    const std::string_view name = inst.info->name;
    WaveShadow& shadow = step.shadow;
    const Bits a = fetch_scalar(step.wave, shadow, inst.src[0], shadow.scc);
    const Bits b = fetch_scalar(step.wave, shadow, inst.src[1], shadow.scc);
    const bool is_wide = inst.dst[0].dwords == 2;
    const bool reads_scc = (inst.info->flags & kReadsScc) && shadow.scc;
    if (name.starts_with("s_setpc") || name.starts_with("s_swappc")) {
        if (a.undefined != 0) {
            report_address(step, {RegSpan::kScalar, inst.src[0].index, inst.src[0].dwords}, -1);
        }
        write_scalar(step, 0, 0);
        return;
    }
    Bits out;
    bool scc = (a.undefined | b.undefined) != 0 || reads_scc;
    if (has(name, "_saveexec")) {
        // The destination takes EXEC, which is defined; EXEC and SCC take the operation's result.
        bitwise(name, a, {step.wave.exec(), 0}, out);
        check_exec(step, out.undefined);
        out.undefined = 0;
        scc = false;
    } else if (name.starts_with("s_mov_b") || name.starts_with("s_not_b")) {
        out.undefined = a.undefined;
    } else if (name.starts_with("s_cselect")) {
        out.undefined = reads_scc ? ~uint64_t{0} : (step.wave.scc ? a : b).undefined;
    } else if (name.starts_with("s_cmov")) {
        const Bits old = fetch_scalar(step.wave, shadow, inst.dst[0], false);
        out.undefined = reads_scc ? ~uint64_t{0} : (step.wave.scc ? a : old).undefined;
    } else if (bitwise(name, a, b, out)) {
        out.value &= is_wide ? ~uint64_t{0} : 0xffffffff;
        out.undefined &= is_wide ? ~uint64_t{0} : 0xffffffff;
        scc = is_zero_unknown(out);
    } else if (!name.starts_with("s_movk") && !name.starts_with("s_getreg") && !name.starts_with("s_getpc") &&
               !shifted(name, a, b, is_wide, out.undefined)) {
        const bool is_old_read = (inst.info->flags & kDstIsRead) != 0;
        const Bits old = is_old_read ? fetch_scalar(step.wave, shadow, inst.dst[0], false) : Bits{};
        scc = scc || old.undefined != 0;
        out.undefined = all_if(scc);
    }
    write_scalar(step, is_wide ? out.undefined : out.undefined & 0xffffffff, 0);
    if (inst.info->flags & kWritesScc) {
        shadow.scc = scc;
    }
}

void UndefinedTracker::check_branch(Step& step) {
    write_scalar(step, 0, 0);  // s_call_b64 leaves its return address
    const uint32_t flags = step.inst.info->flags;
    const Wave& real = step.wave;
    WaveShadow& shadow = step.shadow;
    const uint64_t vcc = shadow.wave.read64(kVccCode);
    // A defined one decides whether VCC is zero.
    const bool is_vcc = (flags & kReadsVcc) && vcc != 0 && (real.vcc() & ~vcc) == 0;
    const bool is_scc = (flags & kReadsScc) && shadow.scc;
    if (!is_vcc && !is_scc) {
        return;
    }
    reporter_.report(real, {"undefined-branch", step.pc, 0}, FindingClass::kError, [&](Finding& finding) {
        finding.where = is_vcc ? "vcc" : "scc";
        finding.message = finding.where + " follows from data that was never written, and decides a branch";
    });
    shadow.scc = is_scc ? false : shadow.scc;
    if (is_vcc) {
        shadow.wave.write64(kVccCode, 0);
        shadow.note_written({RegSpan::kScalar, kVccCode, 2});
    }
}

}  // namespace asmevo::emulator
