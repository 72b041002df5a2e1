#include "exec/checks/workgroup_checks.h"

#include "exec/dispatch.h"

namespace asmevo::emulator {

WorkgroupChecks::WorkgroupChecks(const DispatchContext& dispatch, FindingLog& log)
    : checks_(dispatch.options->checks),
      reporter_(dispatch, log),
      lds_(reporter_),
      hazards_(reporter_) {}

void WorkgroupChecks::restart(const Workgroup& group) {
    lds_.reset(group.waves.size(), group.lds.size());
    hazards_.reset(group.waves.size());
}

void WorkgroupChecks::before_waits(Wave& wave, const Inst& inst, uint64_t pc) {
    if (wave.has_pending_results) {
        check_pending(wave, inst, pc, reporter_);
    }
    if (inst.lds_shape.pieces > 0) {
        lds_.note(wave, inst, pc);
    }
}

void WorkgroupChecks::pass_barrier(const Workgroup& group) {
    if (checks_ & kCheckWaits) {
        lds_.pass_barrier(group);
    }
}

}  // namespace asmevo::emulator
