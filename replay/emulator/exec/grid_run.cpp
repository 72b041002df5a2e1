#include "exec/checks/undefined/undefined_memory.h"
#include "exec/grid_run.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "exec/host_float.h"
#include "exec/occupancy.h"

namespace asmevo::emulator {
namespace {

constexpr uint64_t kDefaultWatchdog = 4'000'000'000;
// Rounds of slices: before a workgroup is believed to wait for another, and for each turn after that.
constexpr unsigned kFirstRounds = 256, kRounds = 4;
// Workgroups, for each thread, that may run ahead of the one whose turn it is. Independent ones hold no storage once
// they have ended.
constexpr uint64_t kWindow = 4, kIndependentWindow = 4096;
constexpr auto kStuckNap = std::chrono::microseconds(50);  // the host may be what they wait for

}  // namespace

GridRun::GridRun(const DispatchRequest& request, const DispatchOptions& options) : request_(request) {
    context_.request = &request;
    context_.options = &options;
    context_.entry = start_address(*request.kernel);
    context_.max_wave_instructions =
        options.max_wave_instructions ? options.max_wave_instructions : kDefaultWatchdog;
    if (options.checks & kCheckUndefined) {
        context_.undefined_memory = std::make_shared<UndefinedMemory>(UnwrittenMemory::get().ranges());
    }
    total_ = uint64_t{request.grid.x} * request.grid.y * request.grid.z;
    resident_ = resident_workgroups(request);
    Ordering highest = request.kernel->code->highest_ordering(context_.entry);
    stop_at_ = stop_ahead_at(highest);
    is_independent_ = highest < stop_at_;
    window_ = std::min(resident_, is_independent_ ? kIndependentWindow : kWindow * thread_count());
}

Dim3 GridRun::id_of(uint64_t index) const {
    const Dim3& grid = request_.grid;
    return {static_cast<uint32_t>(index % grid.x), static_cast<uint32_t>(index / grid.x % grid.y),
            static_cast<uint32_t>(index / grid.x / grid.y)};
}

unsigned GridRun::thread_count() const {
    unsigned wanted = context_.options->threads ? context_.options->threads
                                                : std::max(1u, std::thread::hardware_concurrency());
    return static_cast<unsigned>(std::clamp<uint64_t>(total_, 1, wanted));
}

void GridRun::run(DispatchResult& result) {
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < thread_count(); ++i) {
        helpers.emplace_back([this] { collecting([this](Collected& collected) { help(collected); }); });
    }
    collecting([this](Collected& collected) { take_turns(collected); });
    stop();
    for (std::thread& helper : helpers) {
        helper.join();
    }
    if (context_.undefined_memory) {
        const std::string failure = context_.undefined_memory->report(context_, collected_.findings);
        report_ = report_.empty() ? failure : report_;
    }
    result.ok = report_.empty();
    result.report = report_;
    result.waves = waves_;
    result.wave_instructions = context_.wave_instructions;
    if (result.ok && context_.options->model_timing) {
        result.modelled_cycles = modelled_cycles(request_, collected_.timing);
    }
    write_profile(result);
    result.findings = collected_.findings.take();
}

/// Runs `body` on this thread and adds what it collected to the dispatch's sums.
template <typename Body>
void GridRun::collecting(Body body) {
    const HostFloatScope host_float;
    Collected mine;
    try {
        if (context_.options->collect_profile) {
            mine.counters.resize(request_.kernel->code->size() / 4 + 1);
        }
        body(mine);
    } catch (const FaultReport& fault) {
        fail(fault.text);
    } catch (const std::exception& error) {
        fail("kernel " + request_.kernel->name + ": " + error.what());
    }
    add(std::move(mine));
}

void GridRun::fail(const std::string& report) {
    std::lock_guard lock(mutex_);
    report_ = report_.empty() ? report : report_;
    has_failed_ = true;
}

void GridRun::add(Collected&& collected) {
    std::lock_guard lock(mutex_);
    collected_.timing.add(collected.timing);
    collected_.findings.add(std::move(collected.findings));
    collected_.counters.resize(std::max(collected_.counters.size(), collected.counters.size()));
    for (size_t i = 0; i < collected.counters.size(); ++i) {
        collected_.counters[i].executions += collected.counters[i].executions;
        collected_.counters[i].stall += collected.counters[i].stall;
    }
}

void GridRun::stop() {
    is_stopping_ = true;
    std::lock_guard lock(mutex_);
    changed_.notify_all();
}

void GridRun::help(Collected& collected) {
    Lock lock(mutex_);
    while (!is_stopping_ && started_ < total_ && !has_failed_) {
        if (!run_next_freely(lock, collected)) {
            changed_.wait(lock);
        }
    }
}

/// Starts the next workgroup, unless too many wait for their turn or one has failed.
bool GridRun::run_next_freely(Lock& lock, Collected& collected) {
    if (started_ == total_ || has_failed_ || ahead_.size() >= window_) {
        return false;
    }
    Ahead& ahead = ahead_.emplace_back();  // deque: stays in place while others come and go at the ends
    ahead.index = started_++;
    lock.unlock();
    run_freely(ahead, collected);
    lock.lock();
    ahead.is_ready = true;
    has_failed_ = has_failed_ || !ahead.failure.empty();
    changed_.notify_all();
    return true;
}

void GridRun::run_freely(Ahead& ahead, Collected& collected) {
    try {
        ahead.run = take_spare();
        ahead.run->restart(id_of(ahead.index), stop_at_);
        for (unsigned round = 0; !is_stopping_; ++round) {
            if (ahead.run->step(collected)) {
                waves_ += ahead.run->wave_count();
                ahead.findings = std::move(ahead.run->findings());
                recycle(std::move(ahead.run));
                return;
            }
            bool is_long = !is_independent_ && round + 1 == kFirstRounds;
            if (is_long || ahead.run->is_idle()) {
                return;
            }
        }
    } catch (const FaultReport& fault) {
        ahead.failure = fault.text;
        ahead.findings = std::move(ahead.run->findings());
    } catch (const std::exception& error) {
        ahead.failure = "kernel " + request_.kernel->name + ": " + error.what();
    }
}

std::unique_ptr<WorkgroupRun> GridRun::take_spare() {
    {
        std::lock_guard lock(mutex_);
        if (!spare_.empty()) {
            auto run = std::move(spare_.back());
            spare_.pop_back();
            return run;
        }
    }
    return std::make_unique<WorkgroupRun>(context_);
}

void GridRun::recycle(std::unique_ptr<WorkgroupRun> run) {
    std::lock_guard lock(mutex_);
    spare_.push_back(std::move(run));
}

void GridRun::take_turns(Collected& collected) {
    std::vector<Active> active;
    while (admitted_ < total_ || !active.empty()) {
        size_t before = active.size();
        std::erase_if(active, [&](Active& each) { return give_turn(each, collected); });
        bool has_ended = active.size() < before;
        if (active.empty() || !has_ended) {
            // Whoever is waited for may not have started: as many again join.
            uint64_t room = resident_ - std::min<uint64_t>(active.size(), resident_);
            uint64_t wanted = std::min({std::max<uint64_t>(1, active.size()), room, total_ - admitted_});
            for (uint64_t i = 0; i < wanted; ++i) {
                admit(collected, active);
            }
            if (wanted == 0) {
                check_stuck(active, collected);
            }
        } else {
            stuck_since_.reset();
        }
    }
}

/// The next workgroup in index order joins the active ones, unless it has already ended.
void GridRun::admit(Collected& collected, std::vector<Active>& active) {
    stuck_since_.reset();
    Lock lock(mutex_);
    while (ahead_.empty() || !ahead_.front().is_ready) {
        if (!run_next_freely(lock, collected)) {
            changed_.wait(lock);
        }
    }
    Ahead next = std::move(ahead_.front());
    ahead_.pop_front();
    changed_.notify_all();
    lock.unlock();
    ++admitted_;
    collected.findings.add(std::move(next.findings));
    if (!next.failure.empty()) {
        throw FaultReport{next.failure};
    }
    if (next.run) {
        next.run->give_turn();
        active.push_back({next.index, std::move(next.run), true});
    }
}

/// True when it has ended.
bool GridRun::give_turn(Active& active, Collected& collected) {
    unsigned rounds = std::exchange(active.is_fresh, false) ? kFirstRounds : kRounds;
    try {
        for (unsigned round = 0; round < rounds; ++round) {
            if (active.run->step(collected)) {
                waves_ += active.run->wave_count();
                collected.findings.add(std::move(active.run->findings()));
                recycle(std::move(active.run));
                return true;
            }
            if (active.run->is_idle()) {
                break;
            }
        }
    } catch (const FaultReport&) {
        collected.findings.add(std::move(active.run->findings()));
        throw;
    }
    return false;
}

/// Nobody has ended and nobody can join. When all spin without any change, only the host could help them, which gets
/// some time for it.
void GridRun::check_stuck(const std::vector<Active>& active, Collected& collected) {
    bool is_stuck = std::all_of(active.begin(), active.end(), [](const Active& each) { return each.run->is_stuck(); });
    if (!is_stuck) {
        stuck_since_.reset();
        return;
    }
    const Clock::time_point now = Clock::now();
    stuck_since_ = stuck_since_.value_or(now);
    if (now - *stuck_since_ < std::chrono::milliseconds(context_.options->max_idle_ms)) {
        std::this_thread::sleep_for(kStuckNap);
        return;
    }
    std::string why = "waits for ever: all " + std::to_string(active.size()) +
                      " resident workgroups spin or stand at a barrier";
    if (admitted_ < total_) {
        why += ", and the " + std::to_string(total_ - admitted_) +
               " that have not started find no room (the chip holds " + std::to_string(resident_) + ")";
    }
    FaultReport report = active.front().run->endless(why);
    collected.findings.add(std::move(active.front().run->findings()));
    throw report;
}

void GridRun::write_profile(DispatchResult& result) const {
    const KernelImage& kernel = *request_.kernel;
    for (size_t i = 0; i < collected_.counters.size(); ++i) {
        const PcCounter& counter = collected_.counters[i];
        uint64_t pc = kernel.code->address() + 4 * i;
        if (counter.executions > 0) {
            result.profile.push_back({pc - kernel.entry, counter.executions, counter.stall});
        }
    }
}

}  // namespace asmevo::emulator
