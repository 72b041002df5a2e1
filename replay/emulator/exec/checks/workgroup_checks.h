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
        if (checks_ & kCheckWaits) {
            before_waits(wave, inst, pc);
        }
        if (checks_ & ~kCheckWaits) {
            const Plan& plan = plans_.at(inst, pc);
            if (checks_ & kCheckHazards) {
                hazards_.note(wave, plan.hazard, pc);
            }
            if (plan.is_memory) {
                before_access(wave, inst, plan, pc);
            }
            if (undefined_) {
                undefined_->note(wave, inst, plan.flow, plan.access, pc);
            }
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
    void before_waits(Wave& wave, const Inst& inst, uint64_t pc);

    void before_access(const Wave& wave, const Inst& inst, const Plan& plan, uint64_t pc);

    CheckSet checks_;
    Reporter reporter_;
    PlanTable plans_;
    LdsTracker lds_;
    HazardTracker hazards_;
    RaceTracker races_;
    std::optional<UndefinedTracker> undefined_;
};

}  // namespace asmevo::emulator
