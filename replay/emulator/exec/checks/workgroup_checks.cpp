#include "exec/checks/workgroup_checks.h"

#include "exec/checks/alignment.h"
#include "exec/checks/barriers.h"
#include "exec/dispatch.h"

namespace asmevo::emulator {

WorkgroupChecks::WorkgroupChecks(const DispatchContext& dispatch, FindingLog& log)
    : checks_(dispatch.options->checks),
      reporter_(dispatch, log),
      lds_(reporter_),
      hazards_(reporter_),
      races_(reporter_) {
    if (checks_ & kCheckUndefined) {
        undefined_.emplace(reporter_, *dispatch.undefined_memory);
    }
}

void WorkgroupChecks::restart(const Workgroup& group) {
    lds_.reset(group.waves.size(), group.lds.size());
    hazards_.reset(group.waves.size());
    if (undefined_) {
        undefined_->restart(group);
    }
    races_.reset(checks_ & kCheckRaces ? group.lds.size() : 0);
}

void WorkgroupChecks::before_access(const Wave& wave, const Inst& inst, const Plan& plan, uint64_t pc) {
    footprint_ = lds_footprint(wave, inst, plan.access);
    if ((checks_ & kCheckRaces) && plan.may_touch_lds) {
        races_.note(wave, inst, plan.access, footprint_, pc);
    }
    if (checks_ & kCheckAlignment) {
        check_alignment(wave, inst, plan.access, footprint_, pc, reporter_);
    }
}

void WorkgroupChecks::pass_barrier(const Workgroup& group) {
    if (checks_ & kCheckBarriers) {
        check_barrier(group, reporter_);
    }
    races_.pass_barrier();
    if (checks_ & kCheckWaits) {
        lds_.pass_barrier(group);
    }
}

}  // namespace asmevo::emulator
