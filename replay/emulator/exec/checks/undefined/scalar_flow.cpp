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

/// AND of two, after the inversions that the operation makes; an undefined bit stays one when inverted.
uint64_t and_bits(const Bits& a, const Bits& b) {
    return (a.undefined & b.undefined) | (a.undefined & b.value) | (b.undefined & a.value);
}
Bits inverted(const Bits& a) { return {~a.value, a.undefined}; }

uint64_t all_if(bool condition) { return condition ? ~uint64_t{0} : 0; }

/// A bitwise operation of two operands; an undefined bit stays one when the result is inverted.
Bits bitwise(const ScalarPlan& plan, Bits a, Bits b) {
    a = plan.inverts_first ? inverted(a) : a;
    b = plan.inverts_second ? inverted(b) : b;
    Bits out;
    switch (plan.flow) {
        case ScalarFlow::kAnd: out = {a.value & b.value, and_bits(a, b)}; break;
        case ScalarFlow::kOr: out = {a.value | b.value, and_bits(inverted(a), inverted(b))}; break;
        default: out = {a.value ^ b.value, a.undefined | b.undefined}; break;
    }
    out.value = plan.inverts_result ? ~out.value : out.value;
    return out;
}

/// Whether it is unknown that a result is zero: a defined one decides.
bool is_zero_unknown(const Bits& result) {
    return result.undefined != 0 && (result.value & ~result.undefined) == 0;
}

/// The undefined bits of a shift by a defined amount.
uint64_t shifted(ScalarFlow flow, uint64_t undefined, uint64_t amount, bool is_wide) {
    const unsigned by = static_cast<unsigned>(amount) & (is_wide ? 63 : 31);
    switch (flow) {
        case ScalarFlow::kShiftLeft: return undefined << by;
        case ScalarFlow::kShiftRight: return undefined >> by;
        case ScalarFlow::kShiftRightSigned: {
            const auto wide = static_cast<int64_t>(undefined);
            return static_cast<uint64_t>((is_wide ? wide : static_cast<int32_t>(undefined)) >> by);
        }
        default: {
            const unsigned first = amount & 31, width = amount >> 16 & 127;
            return undefined >> first & (width >= 32 ? 0xffffffffull : (uint64_t{1} << width) - 1);
        }
    }
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
    const ScalarPlan& plan = step.plan.scalar;
    WaveShadow& shadow = step.shadow;
    const Bits a = fetch_scalar(step.wave, shadow, inst.src[0], shadow.scc);
    const Bits b = fetch_scalar(step.wave, shadow, inst.src[1], shadow.scc);
    const uint64_t all = inst.dst[0].dwords == 2 ? ~uint64_t{0} : 0xffffffff;
    const bool reads_scc = (inst.info->flags & kReadsScc) && shadow.scc;
    auto old_destination = [&] { return fetch_scalar(step.wave, shadow, inst.dst[0], false); };
    uint64_t undefined = 0;
    bool scc = (a.undefined | b.undefined) != 0 || reads_scc;
    switch (plan.flow) {
        case ScalarFlow::kJump:
            if (a.undefined != 0) {
                report_address(step, {RegSpan::kScalar, inst.src[0].index, inst.src[0].dwords}, -1);
            }
            break;
        case ScalarFlow::kConstant: break;
        case ScalarFlow::kMove: undefined = a.undefined; break;
        case ScalarFlow::kSelect:
            undefined = reads_scc ? ~uint64_t{0} : (step.wave.scc ? a : b).undefined;
            break;
        case ScalarFlow::kMoveIf:
            undefined = reads_scc ? ~uint64_t{0} : (step.wave.scc ? a : old_destination()).undefined;
            break;
        case ScalarFlow::kAnd: case ScalarFlow::kOr: case ScalarFlow::kXor: {
            // The destination of s_*_saveexec takes EXEC, which is defined. EXEC takes the operation's result; once told of,
            // that counts as defined in SCC and in the destination of s_*_wrexec too.
            Bits out = bitwise(plan, a, plan.writes_exec ? Bits{step.wave.exec(), 0} : b);
            if (plan.writes_exec) {
                check_exec(step, out.undefined);
                scc = false;
                break;
            }
            out = {out.value & all, out.undefined & all};
            undefined = out.undefined;
            scc = is_zero_unknown(out);
            break;
        }
        default:
            if (plan.flow != ScalarFlow::kAny && b.undefined == 0) {
                undefined = shifted(plan.flow, a.undefined, b.value, all == ~uint64_t{0});
                break;
            }
            scc = scc || ((inst.info->flags & kDstIsRead) && old_destination().undefined != 0);
            undefined = all_if(scc);
            break;
    }
    write_scalar(step, undefined & all, 0);
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

ScalarPlan scalar_plan(const Inst& inst) {
    const std::string_view name = inst.info->name;
    auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
    auto starts = [&](auto... prefixes) { return (name.starts_with(prefixes) || ...); };
    ScalarPlan plan;
    plan.writes_exec = has("_saveexec") || has("_wrexec");
    if (starts("s_setpc", "s_swappc")) {
        plan.flow = ScalarFlow::kJump;
    } else if (starts("s_mov_b", "s_not_b")) {
        plan.flow = ScalarFlow::kMove;
    } else if (starts("s_cselect")) {
        plan.flow = ScalarFlow::kSelect;
    } else if (starts("s_cmov")) {
        plan.flow = ScalarFlow::kMoveIf;
    } else if (starts("s_and", "s_nand_", "s_or", "s_nor_", "s_xor_", "s_xnor_")) {
        plan.flow = starts("s_and", "s_nand_")  ? ScalarFlow::kAnd
                    : starts("s_or", "s_nor_") ? ScalarFlow::kOr
                                               : ScalarFlow::kXor;
        plan.inverts_first = has("andn1") || has("orn1");
        plan.inverts_second = has("andn2") || has("orn2");
        plan.inverts_result = starts("s_n", "s_xn");
    } else if (starts("s_movk", "s_getreg", "s_getpc")) {
        plan.flow = ScalarFlow::kConstant;
    } else if (starts("s_lshl_b")) {
        plan.flow = ScalarFlow::kShiftLeft;
    } else if (starts("s_lshr_b")) {
        plan.flow = ScalarFlow::kShiftRight;
    } else if (starts("s_ashr_i")) {
        plan.flow = ScalarFlow::kShiftRightSigned;
    } else if (name == "s_bfe_u32") {
        plan.flow = ScalarFlow::kExtract;
    }
    return plan;
}

}  // namespace asmevo::emulator
