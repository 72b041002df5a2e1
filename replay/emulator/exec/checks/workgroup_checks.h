// The run-time checks of one workgroup: the one seam between them and the run loop. They watch the waves and change
// nothing that a program can see.
#pragma once

#include <optional>

#include "exec/checks/finding.h"
#include "exec/checks/hazard_tracking.h"
#include "exec/checks/plan.h"
#include "exec/checks/race_tracking.h"
#include "exec/checks/undefined/undefined_tracking.h"
#include "exec/lds_tracking.h"
#include "exec/wait_tracking.h"

namespace asmevo::emulator {

/// Owned by a WorkgroupRun, used by its thread.
class WorkgroupChecks {
  public:
    WorkgroupChecks(const DispatchContext& dispatch, FindingLog& log);

    /// The workgroup's start state is set up.
    void restart(const Workgroup& group);
    /// `inst` is about to execute; wave.pc is its own address. Throws Fault when a finding ends the launch.
    void before(Wave& wave, const Inst& inst, uint64_t pc) {
        const Plan& plan = plans_.at(inst, pc);
        if (checks_ & kCheckWaits) {
            if (wave.has_pending_results &&
                (plan.touched.meets(wave.pending_sgpr, wave.pending_vgpr) || wave.gpr_idx_on)) {
                check_pending(wave, inst, pc, reporter_);
            }
            if (inst.lds_shape.pieces > 0) {
                lds_.note(wave, inst, pc);
            }
        }
        if (checks_ & kCheckHazards) {
            hazards_.note(wave, plan.hazard, pc);
        }
        footprint_.is_known = false;
        if (plan.is_memory) {
            before_access(wave, inst, plan, pc);
        }
        if (undefined_ && undefined_->may_concern(wave, plan.touched, plan.flow, footprint_)) {
            undefined_->note(wave, inst, plan.flow, plan.access, footprint_, pc);
        }
    }
    /// `inst` has executed.
    void after(Wave& wave, const Inst& inst, uint64_t pc) {
        if ((checks_ & kCheckWaits) && inst.wait_class != WaitClass::kNone) {
            add_pending(wave, inst, pc);
        }
    }
    /// All live waves stand at a barrier. Throws Fault when a finding ends the launch.
    void pass_barrier(const Workgroup& group);

  private:
    void before_access(const Wave& wave, const Inst& inst, const Plan& plan, uint64_t pc);

    CheckSet checks_;
    Reporter reporter_;
    PlanTable plans_;
    LdsFootprint footprint_;  // of the instruction that is about to execute, where it has one
    LdsTracker lds_;
    HazardTracker hazards_;
    RaceTracker races_;
    std::optional<UndefinedTracker> undefined_;
};

}  // namespace asmevo::emulator
