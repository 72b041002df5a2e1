// Runs the waves of one workgroup, in turn, on the calling thread.
#pragma once

#include <optional>

#include "exec/checks/workgroup_checks.h"
#include "exec/dispatch.h"
#include "exec/timing.h"
#include "exec/wave_setup.h"

namespace asmevo::emulator {

/// A fault with its whole report: kernel, place, surrounding code.
struct FaultReport {
    std::string text;
};

/// Executions and modelled stall by dword of the code segment.
struct PcCounter {
    uint64_t executions = 0, stall = 0;
};

/// What one host thread collects over the workgroups that it runs.
struct Collected {
    DispatchTiming timing;
    std::vector<PcCounter> counters;  // empty unless a profile is wanted
    FindingLog findings;
};

class WorkgroupRun {
  public:
    WorkgroupRun(DispatchContext& dispatch, Dim3 id, Collected& collected);

    /// Gives every live wave one slice; true when all have ended. Throws FaultReport.
    bool step();

    uint64_t wave_count() const { return wave_count_; }
    uint64_t instructions() const { return instructions_; }
    /// Sets up the next workgroup in the same storage.
    void restart(Dim3 id);

  private:
    void run_slice(Wave& wave);
    template <bool kTimed, bool kChecked>
    void execute(Wave& wave, uint64_t& pc);
    void note_stall(uint64_t pc, uint64_t cycles);
    void release_barrier();
    void meet_clocks();

    DispatchContext& dispatch_;
    CodeSegment& code_;
    WorkgroupStorage storage_;
    Collected& collected_;
    bool is_timed_;
    std::vector<WaveTimer> timers_;
    std::optional<WorkgroupChecks> checks_;  // none: nothing is checked
    size_t wave_count_ = 0;
    uint64_t instructions_ = 0;
};

}  // namespace asmevo::emulator
