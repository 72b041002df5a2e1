// Runs the workgroups of a dispatch on host threads, so that neither the result nor the report depends on their number.
//
// A workgroup first runs freely, on any thread, ahead of others: to its end, or to the first instruction whose order
// among workgroups can show (exec/ordering.h). From there on it runs in its turn, on the calling thread: in index order,
// where a workgroup that does not end, because it waits for others or is long, is joined by the next ones, until as many
// are under way as the chip holds. They take turns; what is more than the chip holds waits, as on hardware.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "exec/workgroup_run.h"

namespace asmevo::emulator {

class GridRun {
  public:
    GridRun(const DispatchRequest& request, const DispatchOptions& options);

    /// Runs the whole grid. Never throws.
    void run(DispatchResult& result);

  private:
    /// A workgroup that runs freely or waits for its turn.
    struct Ahead {
        uint64_t index = 0;
        std::unique_ptr<WorkgroupRun> run;  // none when it has ended or failed
        std::string failure;
        FindingLog findings;
        bool is_ready = false;
    };
    struct Active {
        uint64_t index = 0;
        std::unique_ptr<WorkgroupRun> run;
        bool is_fresh = true;
    };
    using Lock = std::unique_lock<std::mutex>;
    using Clock = std::chrono::steady_clock;

    Dim3 id_of(uint64_t index) const;
    unsigned thread_count() const;
    template <typename Body>
    void collecting(Body body);
    void add(Collected&& collected);
    void fail(const std::string& report);

    // The free part. Members below `mutex_` are under it.
    void help(Collected& collected);
    bool run_next_freely(Lock& lock, Collected& collected);
    void run_freely(Ahead& ahead, Collected& collected);
    std::unique_ptr<WorkgroupRun> take_spare();
    void recycle(std::unique_ptr<WorkgroupRun> run);

    // The turns, on the calling thread.
    void take_turns(Collected& collected);
    void admit(Collected& collected, std::vector<Active>& active);
    bool give_turn(Active& active, Collected& collected);
    void check_stuck(const std::vector<Active>& active, Collected& collected);

    void stop();
    void write_profile(DispatchResult& result) const;

    const DispatchRequest& request_;
    DispatchContext context_;
    Ordering stop_at_ = Ordering::kNever;  // of workgroups that run ahead
    bool is_independent_ = false;
    uint64_t total_ = 0, resident_ = 0, window_ = 0;
    std::atomic<uint64_t> waves_{0};
    std::atomic<bool> is_stopping_{false};
    uint64_t admitted_ = 0;   // of the calling thread
    std::optional<Clock::time_point> stuck_since_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Ahead> ahead_;
    uint64_t started_ = 0;  // workgroups that have begun to run
    bool has_failed_ = false;
    std::string report_;
    std::vector<std::unique_ptr<WorkgroupRun>> spare_;
    Collected collected_;
};

}  // namespace asmevo::emulator
