#include "exec/workgroup_run.h"

#include "exec/fault.h"
#include "exec/fault_report.h"
#include "exec/scalar/scalar_rows.h"

namespace asmevo::emulator {
namespace {

// Instructions a wave runs before the next one gets its turn: long enough to keep its registers in the cache, short
// enough that waves that wait for each other through memory make progress.
constexpr unsigned kSlice = 4096;

}  // namespace

WorkgroupRun::WorkgroupRun(DispatchContext& dispatch, Dim3 id, Collected& collected)
    : dispatch_(dispatch),
      code_(*dispatch.request->kernel->code),
      collected_(collected),
      is_timed_(dispatch.options->model_timing || dispatch.options->collect_profile) {
    if (dispatch.options->checks != kNoChecks) {
        checks_.emplace(dispatch, collected.findings);
    }
    restart(id);
}

void WorkgroupRun::restart(Dim3 id) {
    set_up_workgroup(dispatch_, id, storage_);
    wave_count_ = storage_.group.waves.size();
    instructions_ = 0;
    if (checks_) {
        checks_->restart(storage_.group);
    }
    if (is_timed_) {
        timers_.resize(wave_count_);
        for (WaveTimer& timer : timers_) {
            timer.reset();
        }
    }
}

bool WorkgroupRun::step() {
    bool is_live = false;
    uint64_t before = instructions_;
    for (size_t i = 0; i < wave_count_; ++i) {
        size_t index = dispatch_.options->reverse_waves ? wave_count_ - 1 - i : i;
        Wave& wave = *storage_.group.waves[index];
        if (wave.state == WaveState::kRunning) {
            run_slice(wave);
        }
        is_live = is_live || wave.state != WaveState::kDone;
    }
    uint64_t ran = instructions_ - before;
    uint64_t total = dispatch_.wave_instructions.fetch_add(ran, std::memory_order_relaxed) + ran;
    if (is_live && total > dispatch_.max_wave_instructions) {
        throw FaultReport{watchdog_report(dispatch_, storage_.group)};
    }
    if (is_live) {
        release_barrier();
    } else if (is_timed_) {
        collected_.timing.add(timers_);
    }
    return !is_live;
}

void WorkgroupRun::meet_clocks() {
    uint64_t latest = 0;
    for (auto& wave : storage_.group.waves) {
        if (wave->state == WaveState::kAtBarrier) {
            latest = std::max(latest, timers_[wave->wave_id].clock());
        }
    }
    for (auto& wave : storage_.group.waves) {
        if (wave->state == WaveState::kAtBarrier) {
            note_stall(wave->pc - 4, timers_[wave->wave_id].meet(latest));
        }
    }
}

void WorkgroupRun::note_stall(uint64_t pc, uint64_t cycles) {
    if (!collected_.counters.empty()) {
        collected_.counters[(pc - code_.address()) / 4].stall += cycles;
    }
}

void WorkgroupRun::release_barrier() {
    // Ended waves no longer take part (CDNA3 ISA, s_barrier).
    for (auto& wave : storage_.group.waves) {
        if (wave->state == WaveState::kRunning) {
            return;
        }
    }
    if (checks_) {
        checks_->pass_barrier(storage_.group);
    }
    if (is_timed_) {
        meet_clocks();
    }
    for (auto& wave : storage_.group.waves) {
        if (wave->state == WaveState::kAtBarrier) {
            wave->state = WaveState::kRunning;
        }
    }
}

void WorkgroupRun::run_slice(Wave& wave) {
    uint64_t pc = wave.pc;
    uint64_t before = wave.instructions;
    try {
        if (checks_) {
            is_timed_ ? execute<true, true>(wave, pc) : execute<false, true>(wave, pc);
        } else {
            is_timed_ ? execute<true, false>(wave, pc) : execute<false, false>(wave, pc);
        }
    } catch (const Fault& fault) {
        Reporter(dispatch_, collected_.findings).note(wave, pc, fault);
        throw FaultReport{fault_report(dispatch_, wave, pc, fault)};
    }
    instructions_ += wave.instructions - before;
}

template <bool kTimed, bool kChecked>
void WorkgroupRun::execute(Wave& wave, uint64_t& pc) {
    for (unsigned left = kSlice; left > 0 && wave.state == WaveState::kRunning; --left) {
        pc = wave.pc;
        const Inst& inst = code_.at(pc);
        if ((wave.mode & kModeVskip) && inst.info->encoding >= Encoding::kVop1) [[unlikely]] {
            wave.pc = pc + 4u * inst.size_dwords;
            ++wave.instructions;
            if constexpr (kTimed) {
                timers_[wave.wave_id].skip();
            }
            continue;
        }
        if (inst.arch_vgprs > wave.arch_vgpr_count || inst.acc_vgprs > wave.acc_vgpr_count) {
            fault_beyond_allocation(wave, inst);
        }
        if constexpr (kChecked) {
            checks_->before(wave, inst, pc);
        }
        wave.pc = pc + 4u * inst.size_dwords;
        if (!inst.run) {
            throw Fault("instruction is not implemented by the emulated device");
        }
        if constexpr (kTimed) {
            uint64_t stall = timers_[wave.wave_id].issue(wave, inst);
            if (!collected_.counters.empty()) {
                PcCounter& counter = collected_.counters[(pc - code_.address()) / 4];
                ++counter.executions;
                counter.stall += stall;
            }
        }
        inst.run(wave, inst);
        if constexpr (kTimed) {
            if (wave.pc != pc + 4u * inst.size_dwords) {
                timers_[wave.wave_id].take_branch();
            }
        }
        if constexpr (kChecked) {
            checks_->after(wave, inst, pc);
        }
        ++wave.instructions;
    }
}

}  // namespace asmevo::emulator
