#include "exec/checks/undefined/undefined_tracking.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "exec/fault_report.h"
#include "exec/wave_setup.h"
#include "isa/decoder.h"
#include "isa/format.h"

namespace asmevo::emulator {
namespace {

// Registers of a shadow behind the wave's own, for vector operands that keep their values.
constexpr uint16_t kSpare = 512, kSpares = 8;

bool any_bits(const uint64_t* words, unsigned first, unsigned count) {
    for (unsigned i = first; i < first + count; ++i) {
        if (words[i >> 6] >> (i & 63) & 1) {
            return true;
        }
    }
    return false;
}

void set_bit(uint64_t* words, unsigned at, bool value) {
    const uint64_t bit = uint64_t{1} << (at & 63);
    words[at >> 6] = value ? words[at >> 6] | bit : words[at >> 6] & ~bit;
}

RegSpan span_of(const Operand& operand) {
    return {operand.is_vgpr() ? RegSpan::kVector : RegSpan::kScalar, operand.index, operand.dwords};
}

bool is_indexable(const Inst& inst) {
    return inst.info->encoding >= Encoding::kVop1 && inst.info->encoding <= Encoding::kVop3p;
}

bool is_register(const Operand& operand) { return operand.is_vgpr() || operand.is_sgpr(); }

/// Marks the registers that still hold the fill pattern.
void mark_unwritten(const Wave& wave, uint32_t fill, WaveShadow& shadow) {
    for (unsigned code = 0; code < kM0Code; ++code) {
        shadow.wave.sgpr[code] = wave.sgpr[code] == fill ? ~0u : 0;
        set_bit(shadow.scalar_flags, code, shadow.wave.sgpr[code] != 0);
    }
    shadow.wave.sgpr[kM0Code] = wave.m0() == fill ? ~0u : 0;
    set_bit(shadow.scalar_flags, kM0Code, shadow.wave.sgpr[kM0Code] != 0);
    for (unsigned index = 0; index < wave.vgpr.size(); ++index) {
        uint32_t any = 0;
        for (int lane = 0; lane < kLanes; ++lane) {
            const uint32_t bits = wave.vgpr[index].lane[lane] == fill ? ~0u : 0;
            shadow.wave.vgpr[index].lane[lane] = bits;
            any |= bits;
        }
        set_bit(shadow.vector_flags, index, any != 0);
    }
}

}  // namespace

bool WaveShadow::has_undefined(const RegSpan& span) const {
    return any_bits(span.file == RegSpan::kVector ? vector_flags : scalar_flags, span.first, span.count);
}

void WaveShadow::note_written(const RegSpan& span) {
    for (unsigned i = span.first; i < unsigned{span.first} + span.count; ++i) {
        if (span.file == RegSpan::kScalar) {
            set_bit(scalar_flags, i, i < kExecCode && wave.sgpr[i] != 0);
            continue;
        }
        const uint32_t* lanes = wave.vgpr[i].lane;
        uint32_t any = 0;
        for (int lane = 0; lane < kLanes; ++lane) {
            any |= lanes[lane];
        }
        set_bit(vector_flags, i, any != 0);
    }
}

void UndefinedTracker::restart(const Workgroup& group) {
    group_.lds.assign(group.lds.size(), 0xff);
    lds_blocks_.assign(group.lds.size() / kLdsBlock + 1, 1);
    group_.dispatch = group.dispatch;
    while (waves_.size() < group.waves.size()) {
        waves_.push_back(std::make_unique<WaveShadow>());
    }
    const size_t stride = group.waves.empty() ? 0 : group.waves[0]->scratch_stride;
    scratch_.assign(group.waves.size() * kLanes * stride / 4, ~0u);
    for (size_t i = 0; i < group.waves.size(); ++i) {
        const Wave& real = *group.waves[i];
        WaveShadow& shadow = *waves_[i];
        Wave& wave = shadow.wave;
        wave.group = &group_;
        wave.wave_id = real.wave_id;
        wave.mode = 0xf0;  // denormals are kept: bits are only moved
        wave.arch_vgpr_count = real.arch_vgpr_count;
        wave.acc_vgpr_count = real.acc_vgpr_count;
        wave.vgpr.resize(kSpare + kSpares);
        wave.scratch_stride = real.scratch_stride;
        wave.scratch_base = stride ? reinterpret_cast<uint64_t>(scratch_.data()) + i * kLanes * stride : 0;
        std::fill(std::begin(shadow.vector_flags), std::end(shadow.vector_flags), 0);
        std::fill(std::begin(shadow.scalar_flags), std::end(shadow.scalar_flags), 0);
        shadow.scc = true;
        mark_unwritten(real, group.dispatch->options->fill, shadow);
    }
}

void UndefinedTracker::note(const Wave& wave, const Inst& inst, const FlowPlan& plan,
                            const AccessShape& access, const LdsFootprint& footprint, uint64_t pc) {
    if (plan.flow == Flow::kNone) {
        return;
    }
    if (wave.gpr_idx_on && is_indexable(inst)) [[unlikely]] {
        note_indexed(wave, inst, access, footprint, pc);
        return;
    }
    note_plain(wave, inst, plan, access, footprint, pc);
}

/// With the registers that VGPR indexing chooses (s_set_gpr_idx_on) in place of those that the instruction names. Values of
/// operands do not decide there: any undefined bit counts.
void UndefinedTracker::note_indexed(const Wave& wave, const Inst& inst, const AccessShape& access,
                                    const LdsFootprint& footprint, uint64_t pc) {
    Inst chosen = inst;
    chosen.read_count = chosen.write_count = 0;
    auto choose = [&](Operand& operand, unsigned slot) {
        if (operand.is_vgpr() && (wave.m0() >> (12 + slot) & 1)) {
            operand.index = static_cast<uint16_t>(operand.index + (wave.m0() & 0xff));
        }
        return !operand.is_vgpr() || operand.index + operand.dwords <= wave.vgpr.size();
    };
    bool is_allocated = choose(chosen.dst[0], 3);
    for (unsigned slot = 0; slot < 3; ++slot) {
        is_allocated &= choose(chosen.src[slot], slot);
    }
    std::string error;
    if (!is_allocated || !fill_spans(chosen, error)) {
        return;  // the instruction itself faults
    }
    FlowPlan plan = flow_plan(chosen);
    plan.flow = plan.flow == Flow::kShadow || plan.flow == Flow::kAnyHalves ? plan.flow : Flow::kAny;
    note_plain(wave, chosen, plan, access, footprint, pc);
}

void UndefinedTracker::note_plain(const Wave& wave, const Inst& inst, const FlowPlan& plan, const AccessShape& access,
                                  const LdsFootprint& footprint, uint64_t pc) {
    WaveShadow& shadow = *waves_[wave.wave_id];
    const bool reads = std::any_of(inst.reads, inst.reads + inst.read_count,
                                   [&](const RegSpan& span) { return shadow.has_undefined(span); });
    const bool writes = std::any_of(inst.writes, inst.writes + inst.write_count,
                                    [&](const RegSpan& span) { return shadow.has_undefined(span); });
    const bool has_memory = plan.flow == Flow::kLaneAtomic || access.kind == AccessShape::Kind::kLds ||
                            access.kind == AccessShape::Kind::kAddtid ||
                            access.kind == AccessShape::Kind::kScratch || access.loads_to_lds;
    const bool uses_scc = shadow.scc && (inst.info->flags & (kReadsScc | kWritesScc));
    if (!reads && !writes && !has_memory && !uses_scc && !meets_undefined(wave, inst, plan, access)) {
        return;
    }
    Step step{wave, inst, plan, access, pc, shadow, {}};
    if (plan.address_sources != 0 && reads) {
        check_addresses(step);
    }
    prepare(step);
    switch (plan.flow) {
        case Flow::kNone: break;
        case Flow::kShadow: run_handler(step); break;
        case Flow::kMatrix: flow_matrix(step); break;
        case Flow::kLaneAtomic: flow_lane_atomic(step); break;
        case Flow::kLoad: flow_load(step); break;
        case Flow::kStore: flow_store(step); break;
        case Flow::kScalar: flow_scalar(step); break;
        case Flow::kBranch: check_branch(step); break;
        default: flow_vector(step); break;
    }
    finish(step);
    const bool is_lds = access.kind == AccessShape::Kind::kLds || access.kind == AccessShape::Kind::kAddtid ||
                        access.kind == AccessShape::Kind::kFlat;
    if ((is_lds && access.is_write) || access.loads_to_lds) {
        look_at_lds(footprint);
    }
}

/// What an instruction wrote there may have become defined or undefined.
void UndefinedTracker::look_at_lds(const LdsFootprint& footprint) {
    if (!footprint.is_known) {
        look_at_lds(0, group_.lds.size());
        return;
    }
    for (unsigned piece = 0; piece < 2; ++piece) {
        look_at_lds(footprint.first[piece], footprint.end[piece]);
    }
}

void UndefinedTracker::look_at_lds(size_t first, size_t end) {
    for (size_t block = first / kLdsBlock; block * kLdsBlock < end; ++block) {
        const uint8_t* from = &group_.lds[block * kLdsBlock];
        const size_t bytes = std::min(kLdsBlock, group_.lds.size() - block * kLdsBlock);
        lds_blocks_[block] = std::any_of(from, from + bytes, [](uint8_t byte) { return byte != 0; });
    }
}

/// Bit per active lane in which the operand has an undefined bit.
uint64_t UndefinedTracker::undefined_lanes(const Step& step, const Operand& operand) const {
    if (!is_register(operand) || !step.shadow.has_undefined(span_of(operand))) {
        return 0;
    }
    uint64_t lanes = 0;
    for (unsigned i = operand.index; i < unsigned{operand.index} + operand.dwords; ++i) {
        if (operand.is_sgpr()) {
            lanes |= step.shadow.wave.sgpr[i] ? ~uint64_t{0} : 0;
            continue;
        }
        for (int lane = 0; lane < kLanes; ++lane) {
            lanes |= uint64_t{step.shadow.wave.vgpr[i].lane[lane] != 0} << lane;
        }
    }
    return lanes & step.wave.exec();
}

void UndefinedTracker::check_addresses(Step& step) {
    for (int source = 0; source < 4; ++source) {
        const Operand& operand = step.inst.src[source];
        if (!(step.plan.address_sources >> source & 1) || !is_register(operand)) {
            continue;
        }
        const uint64_t lanes = undefined_lanes(step, operand);
        const bool is_scalar = step.inst.info->category == Category::kSmem;
        if (lanes != 0 || (is_scalar && step.shadow.has_undefined(span_of(operand)))) {
            report_address(step, span_of(operand), operand.is_vgpr() ? std::countr_zero(lanes) : -1);
        }
    }
}

void UndefinedTracker::report_address(Step& step, const RegSpan& span, int lane) {
    reporter_.report(step.wave, {"undefined-address", step.pc, 0}, FindingClass::kError, [&](Finding& finding) {
        finding.where = format_register(span.file, span.first, span.count);
        finding.lane = lane;
        finding.message = "the address in " + finding.where + " has bits that were never written";
    });
    for (unsigned i = span.first; i < unsigned{span.first} + span.count; ++i) {
        if (span.file == RegSpan::kScalar) {
            step.shadow.wave.sgpr[i] = 0;
        } else {
            std::memset(step.shadow.wave.vgpr[i].lane, 0, sizeof(LaneArray));
        }
    }
    step.shadow.note_written(span);
}

/// EXEC, which is never undefined there, and the operands that keep their values enter the shadow.
void UndefinedTracker::prepare(Step& step) {
    Wave& wave = step.shadow.wave;
    wave.set_exec(step.wave.exec());
    if (step.plan.real_sources != 0) {
        step.with_values = step.plan.shadow;
    }
    for (int source = 0; source < 4; ++source) {
        if (step.plan.real_sources >> source & 1) {
            substitute(step, source);
        }
    }
}

void UndefinedTracker::substitute(Step& step, int source) {
    const Operand& real = step.inst.src[source];
    Operand& operand = step.with_values->src[source];
    if (real.is_vgpr()) {
        const auto spare = static_cast<uint16_t>(kSpare + 2 * source);
        for (unsigned i = 0; i < real.dwords; ++i) {
            step.shadow.wave.vgpr[spare + i] = step.wave.vgpr[real.index + i];
        }
        operand.index = spare;
    } else if (real) {
        operand.kind = OperandKind::kConst;
        operand.constant = real.dwords == 2 ? read_scalar64(step.wave, real) : read_scalar32(step.wave, real);
    }
}

/// Runs the handler on the shadow. Where an operand that kept its value was undefined, the whole result is.
void UndefinedTracker::run_handler(Step& step) {
    uint64_t lanes = 0;
    for (int source = 0; source < 4; ++source) {
        const Operand& operand = step.inst.src[source];
        const bool is_mask = operand.type == Type::kMask && operand.is_sgpr();
        if (!(step.plan.real_sources >> source & 1) || step.plan.address_sources >> source & 1) {
            continue;
        }
        lanes |= is_mask ? step.shadow.wave.read64(operand.index) & step.wave.exec()
                         : undefined_lanes(step, operand);
    }
    Wave& shadow = step.shadow.wave;
    const uint32_t m0 = shadow.sgpr[kM0Code];
    const bool takes_m0 = (step.inst.info->flags & kReadsM0) != 0;
    shadow.sgpr[kM0Code] = takes_m0 ? step.wave.m0() : m0;
    const Inst& moving = step.with_values ? *step.with_values : step.plan.shadow;
    moving.run(shadow, moving);
    shadow.sgpr[kM0Code] = takes_m0 ? m0 : shadow.sgpr[kM0Code];
    const Operand& dst = step.inst.dst[0];
    if (lanes == 0 || !dst) {
        return;
    }
    for (unsigned i = dst.index; i < unsigned{dst.index} + dst.dwords; ++i) {
        if (dst.is_sgpr()) {
            shadow.sgpr[i] = ~0u;
            continue;
        }
        for (int lane = 0; lane < kLanes; ++lane) {
            shadow.vgpr[i].lane[lane] |= lanes >> lane & 1 ? ~0u : 0;
        }
    }
}

void UndefinedTracker::finish(Step& step) {
    for (unsigned i = 0; i < step.inst.write_count; ++i) {
        step.shadow.note_written(step.inst.writes[i]);
    }
}

void UndefinedTracker::check_exec(Step& step, uint64_t undefined) {
    if (undefined == 0) {
        return;
    }
    reporter_.report(step.wave, {"undefined-exec", step.pc, 0}, FindingClass::kError, [&](Finding& finding) {
        finding.where = "exec";
        finding.lane = std::countr_zero(undefined);
        finding.message = "EXEC takes bits that follow from data that was never written";
    });
}

}  // namespace asmevo::emulator
