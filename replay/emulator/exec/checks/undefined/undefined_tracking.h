// Undefined data: what was never written, bit by bit through registers, LDS and scratch.
//
// Each wave has a shadow: a wave whose registers hold a one for every undefined bit of the real one's. Handlers that only
// move bits run on the shadow as they are. What an instruction will do to the shadow is worked out before it executes,
// while its operands are still there. Undefined data is reported only where it reaches an address, a branch or EXEC, or
// when it is left in memory; then it counts as defined, so that one cause gives one finding.
#pragma once

#include <optional>
#include <vector>

#include "exec/checks/accesses.h"
#include "exec/checks/finding.h"
#include "exec/checks/register_set.h"
#include "exec/checks/undefined/flow.h"
#include "exec/checks/undefined/undefined_memory.h"
#include "exec/vector/operand.h"

namespace asmevo::emulator {

/// The undefined bits of a wave's registers. Registers without a flag have none.
struct WaveShadow {
    Wave wave;
    uint64_t vector_flags[8] = {}, scalar_flags[2] = {};
    bool scc = true;

    bool has_undefined(const RegSpan& span) const;
    /// Sets the flags of registers that were just written.
    void note_written(const RegSpan& span);
};

class UndefinedTracker {
  public:
    UndefinedTracker(Reporter& reporter, UndefinedMemory& memory) : reporter_(reporter), memory_(memory), unwritten_(memory.unwritten()) {}

    /// The workgroup's start state is set up: what still holds the fill pattern was not written.
    void restart(const Workgroup& group);
    /// Whether an instruction could read, write or meet in memory anything undefined. Few can.
    bool may_concern(const Wave& wave, const RegisterSet& touched, const FlowPlan& plan,
                     const LdsFootprint& footprint) const {
        const WaveShadow& shadow = *waves_[wave.wave_id];
        return wave.gpr_idx_on || touched.meets(shadow.scalar_flags, shadow.vector_flags) ||
               (shadow.scc && plan.uses_scc) ||
               (plan.reaches_memory && !(footprint.is_known && is_defined(footprint)));
    }
    /// One of those is about to execute.
    void note(const Wave& wave, const Inst& inst, const FlowPlan& plan, const AccessShape& access,
              const LdsFootprint& footprint, uint64_t pc);

  private:
    /// One instruction at work.
    struct Step {
        const Wave& wave;
        const Inst& inst;
        const FlowPlan& plan;
        const AccessShape& access;
        uint64_t pc;
        WaveShadow& shadow;
        std::optional<Inst> with_values;  // the plan's shadow, with the operands that keep their values
    };

    void note_indexed(const Wave& wave, const Inst& inst, const AccessShape& access, const LdsFootprint& footprint,
                      uint64_t pc);
    void note_plain(const Wave& wave, const Inst& inst, const FlowPlan& plan, const AccessShape& access,
                    const LdsFootprint& footprint, uint64_t pc);
    bool is_defined(const LdsFootprint& footprint) const {
        uint8_t any = 0;
        for (unsigned piece = 0; piece < 2; ++piece) {
            for (size_t block = footprint.first[piece] / kLdsBlock; block * kLdsBlock < footprint.end[piece]; ++block) {
                any |= lds_blocks_[block];
            }
        }
        return any == 0;
    }
    void look_at_lds(size_t first, size_t end);
    void look_at_lds(const LdsFootprint& footprint);

    void check_addresses(Step& step);
    void report_address(Step& step, const RegSpan& span, int lane);
    void prepare(Step& step);
    void substitute(Step& step, int source);
    uint64_t undefined_lanes(const Step& step, const Operand& operand) const;

    void run_handler(Step& step);
    void flow_vector(Step& step);
    void store_result(Step& step, LaneArray& low, LaneArray& high);
    void flow_any(Step& step, LaneArray& low, LaneArray& high, uint64_t& lanes);
    void flow_matrix(Step& step);
    void flow_lane_atomic(Step& step);
    bool meets_undefined(const Wave& wave, const Inst& inst, const FlowPlan& plan, const AccessShape& access);
    bool meets_undefined_scalar(const Wave& wave, const Inst& inst);
    bool is_undefined(uint64_t begin, uint64_t end);
    UnwrittenRange* find_range(uint64_t begin, uint64_t end);
    uint8_t undefined_bytes(uint64_t dword);
    void find_undefined(Step& step, const Access& access, uint8_t* bits);
    uint8_t* private_bits(Step& step, const Access& access);
    bool note_written(uint64_t begin, uint64_t end);
    void set_undefined(Step& step, const Access& access, const uint8_t* bits);
    void flow_load(Step& step);
    void load_to_lds(Step& step);
    void load_scalar(Step& step);
    void load_vector(Step& step);
    void flow_store(Step& step);
    void flow_atomic(Step& step);
    void flow_scalar(Step& step);
    void write_scalar(Step& step, uint64_t undefined, int which);
    void check_exec(Step& step, uint64_t undefined);
    void check_branch(Step& step);
    void finish(Step& step);

    Reporter& reporter_;
    UndefinedMemory& memory_;
    UnwrittenView unwritten_;
    Workgroup group_;  // of the shadows: its LDS holds the undefined bits of the real one
    static constexpr size_t kLdsBlock = 64;
    std::vector<uint8_t> lds_blocks_;  // 1: it may hold undefined bits
    std::vector<std::unique_ptr<WaveShadow>> waves_;
    std::vector<uint32_t> scratch_;
    Accesses accesses_;
};

}  // namespace asmevo::emulator
