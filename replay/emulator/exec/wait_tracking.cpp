#include "exec/wait_tracking.h"

#include <algorithm>

#include "exec/fault_report.h"
#include "isa/format.h"

namespace asmevo::emulator {
namespace {

void set_bits(uint64_t* words, unsigned first, unsigned count) {
    for (unsigned i = first; i < first + count; ++i) {
        words[i >> 6] |= uint64_t{1} << (i & 63);
    }
}

bool any_bits(const uint64_t* words, unsigned first, unsigned count) {
    for (unsigned i = first; i < first + count; ++i) {
        if (words[i >> 6] >> (i & 63) & 1) {
            return true;
        }
    }
    return false;
}

bool is_pending(const Wave& wave, const RegSpan& span) {
    return span.file == RegSpan::kVector ? any_bits(wave.pending_vgpr, span.first, span.count)
                                         : any_bits(wave.pending_sgpr, span.first, span.count);
}

void mark(Wave& wave, const PendingOp& op) {
    wave.has_pending_results = wave.has_pending_results || op.span_count > 0;
    for (unsigned i = 0; i < op.span_count; ++i) {
        const RegSpan& span = op.spans[i];
        set_bits(span.file == RegSpan::kVector ? wave.pending_vgpr : wave.pending_sgpr, span.first,
                 span.count);
    }
}

void rebuild(Wave& wave) {
    std::fill(std::begin(wave.pending_sgpr), std::end(wave.pending_sgpr), 0);
    std::fill(std::begin(wave.pending_vgpr), std::end(wave.pending_vgpr), 0);
    wave.has_pending_results = false;
    for (const PendingOp& op : wave.pending) {
        mark(wave, op);
    }
}

bool overlaps(const RegSpan& a, const RegSpan& b) {
    return a.file == b.file && a.first < b.first + b.count && b.first < a.first + a.count;
}

PendingOp* filler(Wave& wave, const RegSpan& span) {
    for (PendingOp& op : wave.pending) {
        for (unsigned i = 0; i < op.span_count; ++i) {
            if (overlaps(op.spans[i], span)) {
                return &op;
            }
        }
    }
    return nullptr;
}

/// A later operation of the same in-order kind may overwrite a pending result: it returns later.
bool returns_after(const Inst& inst, const Wave& wave, const RegSpan& span) {
    WaitClass kind = inst.wait_class;
    if (kind != WaitClass::kVm && kind != WaitClass::kLds) {
        return false;
    }
    return std::all_of(wave.pending.begin(), wave.pending.end(), [&](const PendingOp& op) {
        bool touches = false;
        for (unsigned i = 0; i < op.span_count; ++i) {
            touches = touches || overlaps(op.spans[i], span);
        }
        return !touches || op.inst->wait_class == kind;
    });
}

/// One instruction's look at what is pending.
struct PendingCheck {
    Wave& wave;
    const Inst& inst;
    uint64_t pc;
    Reporter& reporter;

    /// The operation counts as complete from then on: whatever its data reaches would be reported again.
    void report(const RegSpan& span, const char* what) const {
        PendingOp* op = filler(wave, span);
        reporter.report(wave, {"missing-wait", pc, op->pc}, FindingClass::kError, [&](Finding& finding) {
            const char* counter = op->counts_vm && op->counts_lgkm ? "vmcnt and lgkmcnt"
                                  : op->counts_vm                  ? "vmcnt"
                                                                   : "lgkmcnt";
            finding.where = format_register(span.file, span.first, span.count);
            finding.message = what + (" " + finding.where) + " while " + finding.other_instruction + " at " +
                              place_text(wave, op->pc) + " is still loading it (no s_waitcnt " + counter +
                              " covers it)";
        });
        op->span_count = 0;
        rebuild(wave);
    }
};

/// Takes the counter's oldest operations away until at most `keep` are left.
template <bool PendingOp::* counter>
bool retire(Wave& wave, unsigned keep) {
    unsigned outstanding = 0;
    bool in_order = true;
    for (const PendingOp& op : wave.pending) {
        outstanding += op.*counter;
        in_order = in_order && (op.in_order || !(op.*counter));
    }
    if (outstanding <= keep || (keep > 0 && !in_order)) {
        return false;
    }
    unsigned excess = outstanding - keep;
    for (PendingOp& op : wave.pending) {
        if (excess > 0 && op.*counter) {
            op.*counter = false;
            --excess;
        }
    }
    return true;
}

void drop_complete(Wave& wave) {
    std::erase_if(wave.pending,
                  [](const PendingOp& op) { return !op.counts_vm && !op.counts_lgkm; });
    rebuild(wave);
}

/// VGPR indexing mode moves the registers of vector operations by M0 (s_set_gpr_idx_on).
void check_indexed(const PendingCheck& pending) {
    const Wave& wave = pending.wave;
    const Inst& inst = pending.inst;
    if (inst.info->encoding < Encoding::kVop1 || inst.info->encoding > Encoding::kVop3p) {
        return;
    }
    auto check = [&](const Operand& operand, unsigned slot, const char* what) {
        if (operand.is_vgpr() && (wave.m0() >> (12 + slot) & 1)) {
            unsigned first = operand.index + (wave.m0() & 0xff);
            RegSpan span{RegSpan::kVector, static_cast<uint16_t>(first), operand.dwords};
            if (first + operand.dwords <= kAgprBase && is_pending(wave, span)) {
                pending.report(span, what);
            }
        }
    };
    for (unsigned slot = 0; slot < 3; ++slot) {
        check(inst.src[slot], slot, "reads");
    }
    check(inst.dst[0], 3, "overwrites");
}

}  // namespace

void check_pending(Wave& wave, const Inst& inst, uint64_t pc, Reporter& reporter) {
    const PendingCheck pending{wave, inst, pc, reporter};
    for (unsigned i = 0; i < inst.read_count; ++i) {
        if (is_pending(wave, inst.reads[i])) {
            pending.report(inst.reads[i], "reads");
        }
    }
    for (unsigned i = 0; i < inst.write_count; ++i) {
        if (is_pending(wave, inst.writes[i]) && !returns_after(inst, wave, inst.writes[i])) {
            pending.report(inst.writes[i], "overwrites");
        }
    }
    if (wave.gpr_idx_on) {
        check_indexed(pending);
    }
}

void add_pending(Wave& wave, const Inst& inst, uint64_t pc) {
    WaitClass kind = inst.wait_class;
    PendingOp op{};
    op.inst = &inst;
    op.pc = pc;
    op.counts_vm = kind == WaitClass::kVm || kind == WaitClass::kFlat;
    op.counts_lgkm = kind != WaitClass::kVm;
    op.in_order = kind == WaitClass::kVm || kind == WaitClass::kLds;
    for (const Operand& operand : inst.dst) {
        if (operand.is_vgpr() || operand.is_sgpr()) {
            op.spans[op.span_count++] =
                RegSpan{operand.is_vgpr() ? RegSpan::kVector : RegSpan::kScalar, operand.index,
                        operand.dwords};
        }
    }
    bool is_full = (op.counts_vm && retire<&PendingOp::counts_vm>(wave, kVmLimit - 1)) |
                   (op.counts_lgkm && retire<&PendingOp::counts_lgkm>(wave, kLgkmLimit - 1));
    if (is_full) {
        drop_complete(wave);
    }
    wave.pending.push_back(op);
    mark(wave, op);
}

void wait_counters(Wave& wave, unsigned vm, unsigned lgkm) {
    if (wave.pending.empty()) {
        return;
    }
    if (retire<&PendingOp::counts_vm>(wave, vm) | retire<&PendingOp::counts_lgkm>(wave, lgkm)) {
        drop_complete(wave);
    }
}

}  // namespace asmevo::emulator
