// Runs the waves of one workgroup, in turn, on the calling thread.
#pragma once

#include <optional>

#include "exec/checks/workgroup_checks.h"
#include "exec/dispatch.h"
#include "exec/ordering.h"
#include "exec/seeded/late_memory.h"
#include "exec/seeded/late_results.h"
#include "exec/seeded/turn_order.h"
#include "exec/spin_watch.h"
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
    explicit WorkgroupRun(DispatchContext& dispatch);

    /// Sets up a workgroup, in the storage of the last one. Its waves stop before instructions of order `stop_at` and
    /// above, until it is their turn.
    void restart(Dim3 id, Ordering stop_at);
    /// Gives every live wave one slice on this thread; true when all have ended. Throws FaultReport.
    bool step(Collected& collected);
    /// From now on nothing holds its waves.
    void give_turn();

    /// In the last two steps every live wave gave its slice up: it slept, spun, stood at a barrier or waited for its turn.
    bool is_idle() const { return idle_steps_ > 1; }
    /// Every live wave stands at a barrier or spins without any change.
    bool is_stuck() const;
    /// What to say of a workgroup that never ends: `why`, and where its waves are.
    FaultReport endless(const std::string& why);

    /// What its checks found, and the fault that it ended with.
    FindingLog& findings() { return findings_; }

    uint64_t wave_count() const { return wave_count_; }
    uint64_t instructions() const { return instructions_; }

  private:
    void run_slice(Wave& wave);
    /// Who stands between the run loop and the handlers; each is an instance of its own.
    enum class Watch { kNobody, kChecks, kLateMemory };
    template <bool kTimed, Watch kWatch>
    void execute(Wave& wave, uint64_t& pc);
    template <Watch kWatch>
    void execute_watched(Wave& wave, uint64_t& pc) {
        is_timed_ ? execute<true, kWatch>(wave, pc) : execute<false, kWatch>(wave, pc);
    }
    template <bool kTimed>
    unsigned execute_simple(Wave& wave, uint64_t& pc, unsigned left);
    void note_branch_back(Wave& wave, uint64_t from);
    void note_stall(uint64_t pc, uint64_t cycles);
    bool release_barrier();
    void meet_clocks();

    DispatchContext& dispatch_;
    CodeSegment& code_;
    WorkgroupStorage storage_;
    Collected* collected_ = nullptr;  // of the thread that steps
    bool is_timed_;
    Ordering stop_at_ = Ordering::kNever;
    unsigned idle_steps_ = 0;
    std::vector<WaveTimer> timers_;
    std::vector<SpinWatch> spins_;
    FindingLog findings_;
    std::optional<WorkgroupChecks> checks_;  // none: nothing is checked
    std::optional<LateMemory> late_;         // none: memory operations complete at once
    std::optional<LateResults> late_results_;  // with it, unless the seed leaves it out
    TurnOrder turns_;
    size_t wave_count_ = 0;
    uint64_t instructions_ = 0;
};

}  // namespace asmevo::emulator
