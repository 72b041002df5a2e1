#include "exec/checks/hazard_tracking.h"

#include "exec/fault_report.h"
#include "isa/format.h"

namespace asmevo::emulator {

unsigned HazardTracker::find_required_states(const HazardTraits& producer, const HazardTraits& consumer) {
    unsigned states = 0;
    for (const Requirement& requirement : Requirements(producer, consumer)) {
        states = std::max(states, requirement.states);
    }
    return states;
}

void HazardTracker::check(const Wave& wave, const Recent& recent, const HazardTraits& consumer, uint64_t pc) {
    const bool is_gfx90a = consumer.inst->target == Target::kGfx90a;
    for (unsigned i = 0; i < recent.count; ++i) {
        const Producer& producer = recent.producers[i];
        if (is_gfx90a) {
            check_dgemm_between(wave, recent, i, consumer, pc);
        }
        if (!(producer.traits->interests & consumer.uses)) {
            continue;
        }
        const auto actual = static_cast<unsigned>(recent.clock - producer.clock);
        if (actual >= required_states(*producer.traits, consumer)) {
            continue;
        }
        for (const Requirement& requirement : Requirements(*producer.traits, consumer)) {
            if (actual < requirement.states) {
                report(wave, requirement, actual, pc, producer.pc);
            }
        }
    }
}

/// gfx90a: an access that reads what the VALU wrote two instructions before, with a DGEMM between (CDNA2 ISA 4.5).
void HazardTracker::check_dgemm_between(const Wave& wave, const Recent& recent, unsigned index,
                                        const HazardTraits& consumer, uint64_t pc) {
    const Producer& producer = recent.producers[index];
    const bool is_access = (consumer.uses & (kVmemUse | kLdsUse)) != 0;
    if (!is_access || !(producer.traits->uses & kValuUse) || index + 1 >= recent.count ||
        recent.producers[index + 1].traits->matrix != MatrixKind::kDgemm ||
        recent.clock - producer.clock >= 2) {
        return;
    }
    const RegSpan read = read_after_write(RegSpan::kVector, *producer.traits->inst, *consumer.inst);
    if (read.count) {
        report(wave, {"dgemm-memory", 2, FindingClass::kError, read}, 1, pc, producer.pc);
    }
}

void HazardTracker::report(const Wave& wave, const Requirement& requirement, unsigned actual, uint64_t pc,
                           uint64_t producer_pc) {
    reporter_.report(wave, {requirement.rule, pc, producer_pc}, requirement.severity, [&](Finding& finding) {
        const RegSpan& span = requirement.span;
        const bool is_mode = std::string_view(requirement.rule) == "setreg";
        finding.where = is_mode ? "a hardware register" : format_register(span.file, span.first, span.count);
        finding.message = std::to_string(actual) + " of " + std::to_string(requirement.states) +
                          " wait states between " + finding.other_instruction + " at " +
                          place_text(wave, producer_pc) + " and " + finding.instruction + " (" +
                          requirement.rule + ", " + finding.where + ")";
    });
}

}  // namespace asmevo::emulator
