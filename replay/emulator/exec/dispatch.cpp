// Runs the workgroups of a dispatch.
#include "exec/dispatch.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "exec/fault.h"
#include "exec/host_float.h"
#include "exec/workgroup_run.h"

namespace asmevo::emulator {
namespace {

constexpr uint64_t kDefaultWatchdog = 4'000'000'000;
constexpr uint64_t kMaxWorkgroups = uint64_t{1} << 32;
constexpr uint32_t kMaxWorkItems = 1024;
constexpr uint32_t kMaxScratchBytes = 1u << 20;  // a lane
// Workgroups that may be in flight together on the one thread of an ordered run.
constexpr size_t kMaxResident = 1024;
// Rounds of slices that the running workgroups of an ordered run get before another one starts, which they may be
// waiting for: a lone workgroup is first believed to be long.
constexpr unsigned kLonePatience = 256, kPatience = 4;

uint32_t lds_limit(Target target) { return target == Target::kGfx950 ? 163840 : 65536; }

/// Why the dispatch cannot start; empty when it can.
std::string refusal(const DispatchRequest& request) {
    const KernelImage& kernel = *request.kernel;
    const Dim3 &grid = request.grid, &block = request.block;
    uint64_t items = uint64_t{block.x} * block.y * block.z;
    if (block.x == 0 || block.y == 0 || block.z == 0 || block.x > kMaxWorkItems ||
        block.y > kMaxWorkItems || block.z > kMaxWorkItems || items > kMaxWorkItems) {
        return "a workgroup has 1 to 1024 work-items, not " + std::to_string(items);
    }
    uint64_t lds = uint64_t{kernel.group_segment_size} + request.dynamic_lds;
    if (lds > lds_limit(kernel.target)) {
        return "needs " + std::to_string(lds) + " bytes of LDS, the device has " +
               std::to_string(lds_limit(kernel.target));
    }
    if (scratch_bytes_per_lane(kernel) > kMaxScratchBytes) {
        return "needs " + std::to_string(scratch_bytes_per_lane(kernel)) + " bytes of scratch a lane";
    }
    if (uint64_t{grid.x} * grid.y > kMaxWorkgroups ||
        uint64_t{grid.x} * grid.y * grid.z > kMaxWorkgroups) {
        return "more than 2^32 workgroups";
    }
    return "";
}

class GridRun {
  public:
    GridRun(const DispatchRequest& request, const DispatchOptions& options) : request_(request) {
        context_.request = &request;
        context_.options = &options;
        context_.entry = start_address(*request.kernel);
        context_.max_wave_instructions =
            options.max_wave_instructions ? options.max_wave_instructions : kDefaultWatchdog;
        total_ = uint64_t{request.grid.x} * request.grid.y * request.grid.z;
    }

    void run(DispatchResult& result) {
        bool is_ordered = request_.is_cooperative ||
                          request_.kernel->code->has_global_atomics(context_.entry);
        if (is_ordered) {
            collecting([this](Collected& collected) { run_ordered(collected); });
        } else {
            run_parallel();
        }
        result.ok = failed_at_ == kNone;
        result.report = report_;
        result.waves = waves_;
        if (result.ok && context_.options->model_timing) {
            result.modelled_cycles = modelled_cycles(request_, collected_.timing);
        }
        write_profile(result);
        result.findings = collected_.findings.take();
        result.wave_instructions = context_.wave_instructions;
    }

  private:
    static constexpr uint64_t kNone = ~uint64_t{0};

    Dim3 id_of(uint64_t index) const {
        const Dim3& grid = request_.grid;
        return {static_cast<uint32_t>(index % grid.x), static_cast<uint32_t>(index / grid.x % grid.y),
                static_cast<uint32_t>(index / grid.x / grid.y)};
    }

    void fail(uint64_t index, const std::string& report) {
        std::lock_guard lock(mutex_);
        if (index < failed_at_) {
            failed_at_ = index;
            report_ = report;
        }
    }

    void write_profile(DispatchResult& result) const {
        const KernelImage& kernel = *request_.kernel;
        for (size_t i = 0; i < collected_.counters.size(); ++i) {
            const PcCounter& counter = collected_.counters[i];
            uint64_t pc = kernel.code->address() + 4 * i;
            if (counter.executions > 0) {
                result.profile.push_back({pc - kernel.entry, counter.executions, counter.stall});
            }
        }
    }

    /// Runs `body` on this thread and adds what it collected to the dispatch's sums.
    template <typename Body>
    void collecting(Body body) {
        const HostFloatScope host_float;
        Collected mine;
        current_ = 0;
        try {
            if (context_.options->collect_profile) {
                mine.counters.resize(request_.kernel->code->size() / 4 + 1);
            }
            body(mine);
        } catch (const FaultReport& fault) {
            fail(current_, fault.text);
        } catch (const std::exception& error) {
            fail(current_, "kernel " + request_.kernel->name + ": " + error.what());
        }
        std::lock_guard lock(mutex_);
        collected_.timing.add(mine.timing);
        collected_.findings.add(std::move(mine.findings));
        if (collected_.counters.empty()) {
            collected_.counters = std::move(mine.counters);
            return;
        }
        for (size_t i = 0; i < mine.counters.size(); ++i) {
            collected_.counters[i].executions += mine.counters[i].executions;
            collected_.counters[i].stall += mine.counters[i].stall;
        }
    }

    /// Independent workgroups on all threads. Workgroups start in order and the failure with the lowest index is
    /// reported, so the report does not depend on the number of threads.
    void run_parallel() {
        unsigned wanted = context_.options->threads ? context_.options->threads
                                                    : std::max(1u, std::thread::hardware_concurrency());
        auto threads = static_cast<unsigned>(std::min<uint64_t>(wanted, total_));
        std::vector<std::thread> pool;
        for (unsigned i = 1; i < threads; ++i) {
            pool.emplace_back([this] { work(); });
        }
        work();
        for (std::thread& thread : pool) {
            thread.join();
        }
    }

    void work() {
        collecting([this](Collected& collected) {
            std::unique_ptr<WorkgroupRun> run;
            while (true) {
                uint64_t index = next_.fetch_add(1, std::memory_order_relaxed);
                if (index >= total_ || index > failed_at_) {
                    return;
                }
                current_ = index;
                if (run) {
                    run->restart(id_of(index));
                } else {
                    run = std::make_unique<WorkgroupRun>(context_, id_of(index), collected);
                }
                while (!run->step()) {
                    if (failed_at_ < index) {
                        return;  // an earlier workgroup has failed: its report stands
                    }
                }
                waves_ += run->wave_count();
            }
        });
    }

    /// One thread, in order. A workgroup that does not end for long may wait for a later one, so others join it.
    void run_ordered(Collected& collected) {
        struct Active {
            uint64_t index;
            std::unique_ptr<WorkgroupRun> run;
        };
        std::vector<Active> active;
        std::unique_ptr<WorkgroupRun> spare;
        uint64_t next = 0;
        auto start = [&] {
            current_ = next;
            if (spare) {
                spare->restart(id_of(next));
            } else {
                spare = std::make_unique<WorkgroupRun>(context_, id_of(next), collected);
            }
            active.push_back({next++, std::move(spare)});
        };
        while (next < total_ || !active.empty()) {
            size_t wanted = request_.is_cooperative ? kMaxResident : active.size() + 1;
            while (next < total_ && active.size() < std::min(wanted, kMaxResident)) {
                start();
            }
            bool has_ended = false;
            unsigned rounds = active.size() == 1 ? kLonePatience : kPatience;
            for (unsigned round = 0; round < rounds && !has_ended; ++round) {
                for (size_t i = 0; i < active.size();) {
                    current_ = active[i].index;
                    if (!active[i].run->step()) {
                        ++i;
                        continue;
                    }
                    waves_ += active[i].run->wave_count();
                    spare = std::move(active[i].run);
                    active.erase(active.begin() + static_cast<std::ptrdiff_t>(i));
                    has_ended = true;
                }
            }
        }
    }

    const DispatchRequest& request_;
    DispatchContext context_;
    Collected collected_;  // under mutex_
    uint64_t total_ = 0;
    std::atomic<uint64_t> next_{0}, failed_at_{kNone}, waves_{0};
    std::mutex mutex_;
    std::string report_;
    static thread_local uint64_t current_;  // workgroup that this thread runs
};

thread_local uint64_t GridRun::current_ = 0;

}  // namespace

DispatchResult run_dispatch(const DispatchRequest& request, const DispatchOptions& options) {
    DispatchResult result;
    try {
        std::string reason = refusal(request);
        if (!reason.empty()) {
            result.report = "kernel " + request.kernel->name + ": " + reason;
            return result;
        }
        GridRun(request, options).run(result);
    } catch (const std::exception& error) {
        result.report = std::string("kernel ") + request.kernel->name + ": " + error.what();
    }
    return result;
}

}  // namespace asmevo::emulator
