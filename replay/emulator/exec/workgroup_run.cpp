#include "exec/workgroup_run.h"

#include <algorithm>

#include "exec/fault.h"
#include "exec/fault_report.h"
#include "exec/scalar/scalar_rows.h"
#include "exec/wave_setup.h"

namespace asmevo::emulator {

WorkgroupRun::WorkgroupRun(DispatchContext& dispatch)
    : dispatch_(dispatch),
      code_(*dispatch.request->kernel->code),
      is_timed_(dispatch.options->model_timing || dispatch.options->collect_profile) {
    if (dispatch.options->checks != kNoChecks) {
        checks_.emplace(dispatch, findings_);
    } else if (dispatch.options->seed != 0) {
        late_.emplace(dispatch.options->seed);
        if (!(dispatch.options->seed & kMemoryOnly)) {
            late_results_.emplace(dispatch.options->seed, *late_);
        }
    }
}

void WorkgroupRun::restart(Dim3 id, Ordering stop_at) {
    stop_at_ = stop_at;
    idle_steps_ = 0;
    set_up_workgroup(dispatch_, id, storage_);
    wave_count_ = storage_.group.waves.size();
    instructions_ = 0;
    findings_ = FindingLog();
    if (checks_) {
        checks_->restart(storage_.group);
    }
    const Dim3& grid = dispatch_.request->grid;
    const uint64_t index = id.x + uint64_t{grid.x} * (id.y + uint64_t{grid.y} * id.z);
    turns_.restart(*dispatch_.options, index, wave_count_);
    if (late_) {
        late_->restart(index, wave_count_);
    }
    if (late_results_) {
        late_results_->restart(index, wave_count_);
    }
    spins_.assign(wave_count_, SpinWatch());
    if (is_timed_) {
        timers_.resize(wave_count_);
        for (WaveTimer& timer : timers_) {
            timer.reset();
        }
    }
}

bool WorkgroupRun::step(Collected& collected) {
    collected_ = &collected;
    bool is_live = false;
    bool is_idle = true;
    uint64_t before = instructions_;
    for (const unsigned index : turns_.next()) {
        Wave& wave = *storage_.group.waves[index];
        if (wave.state == WaveState::kYielded) {
            wave.state = WaveState::kRunning;
        }
        if (wave.state == WaveState::kRunning) {
            run_slice(wave);
        }
        is_live = is_live || wave.state != WaveState::kDone;
        is_idle = is_idle && wave.state != WaveState::kRunning;
    }
    dispatch_.wave_instructions.fetch_add(instructions_ - before, std::memory_order_relaxed);
    if (!is_live) {
        if (is_timed_) {
            collected.timing.add(timers_);
        }
        return true;
    }
    if (instructions_ > dispatch_.max_wave_instructions) {
        throw endless("did not end within " + std::to_string(dispatch_.max_wave_instructions) +
                      " wave instructions");
    }
    if (late_) {
        late_->end_turns(storage_.group);
    }
    bool is_released = release_barrier();
    idle_steps_ = is_idle && !is_released ? idle_steps_ + 1 : 0;
    return false;
}

void WorkgroupRun::give_turn() {
    stop_at_ = Ordering::kNever;
    idle_steps_ = 0;
    for (auto& wave : storage_.group.waves) {
        if (wave->state == WaveState::kAwaitsTurn) {
            wave->state = WaveState::kRunning;
        }
    }
}

bool WorkgroupRun::is_stuck() const {
    for (const auto& wave : storage_.group.waves) {
        bool waits = wave->state == WaveState::kDone || wave->state == WaveState::kAtBarrier ||
                     spins_[wave->wave_id].is_spinning();
        if (!waits) {
            return false;
        }
    }
    return true;
}

FaultReport WorkgroupRun::endless(const std::string& why) {
    for (const auto& wave : storage_.group.waves) {
        if (wave->state == WaveState::kRunning || wave->state == WaveState::kYielded) {
            Reporter(dispatch_, findings_).note(*wave, wave->pc, Fault(why, -1, "endless"));
            break;
        }
    }
    return FaultReport{endless_report(dispatch_, storage_.group, spins_, why)};
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
    if (!collected_->counters.empty()) {
        collected_->counters[(pc - code_.address()) / 4].stall += cycles;
    }
}

/// False when it is not complete. Ended waves no longer take part (CDNA3 ISA, s_barrier).
bool WorkgroupRun::release_barrier() {
    bool is_complete = false;
    for (auto& wave : storage_.group.waves) {
        if (wave->state != WaveState::kAtBarrier && wave->state != WaveState::kDone) {
            return false;
        }
        is_complete = is_complete || wave->state == WaveState::kAtBarrier;
    }
    if (!is_complete) {
        return false;
    }
    if (checks_) {
        checks_->pass_barrier(storage_.group);
    }
    if (late_) {
        late_->pass_barrier(storage_.group);
    }
    if (is_timed_) {
        meet_clocks();
    }
    for (auto& wave : storage_.group.waves) {
        if (wave->state == WaveState::kAtBarrier) {
            wave->state = WaveState::kRunning;
        }
    }
    return true;
}

void WorkgroupRun::note_branch_back(Wave& wave, uint64_t from) {
    switch (spins_[wave.wave_id].note(wave, code_, from, wave.pc)) {
        case SpinWatch::Verdict::kGoesOn: return;
        case SpinWatch::Verdict::kSpins: wave.state = WaveState::kYielded; return;
        case SpinWatch::Verdict::kEndless:
            throw endless("endless loop: wave " + std::to_string(wave.wave_id) +
                          " reads nothing in it that could change");
    }
}

void WorkgroupRun::run_slice(Wave& wave) {
    uint64_t pc = wave.pc;
    uint64_t before = wave.instructions;
    try {
        if (checks_) {
            execute_watched<Watch::kChecks>(wave, pc);
        } else if (late_) {
            execute_watched<Watch::kLateMemory>(wave, pc);
        } else {
            execute_watched<Watch::kNobody>(wave, pc);
        }
    } catch (const Fault& fault) {
        Reporter(dispatch_, findings_).note(wave, pc, fault);
        throw FaultReport{fault_report(dispatch_, wave, pc, fault)};
    }
    instructions_ += wave.instructions - before;
    if (dispatch_.request->host_service) {
        dispatch_.request->host_service->serve();
    }
}

/// Plain ALU operations up to the first other instruction; returns what is left of the slice.
template <bool kTimed>
unsigned WorkgroupRun::execute_simple(Wave& wave, uint64_t& pc, unsigned left) {
    if ((wave.mode & kModeVskip) || (kTimed && !collected_->counters.empty())) [[unlikely]] {
        return left;
    }
    WaveTimer* timer = kTimed ? &timers_[wave.wave_id] : nullptr;
    const unsigned before = left;
    for (; left > 0; --left) {
        const Inst* inst = code_.find(wave.pc);
        if (!inst || inst->simple_cycles == 0 || inst->arch_vgprs > wave.arch_vgpr_count ||
            inst->acc_vgprs > wave.acc_vgpr_count) {
            break;
        }
        pc = wave.pc;
        wave.pc = pc + 4u * inst->size_dwords;
        if constexpr (kTimed) {
            if (timer->is_matrix_idle()) {
                timer->issue_simple(inst->is_vector, inst->simple_cycles);
            } else {
                timer->issue(wave, *inst);
            }
        }
        inst->run(wave, *inst);
    }
    wave.instructions += before - left;
    return left;
}

template <bool kTimed, WorkgroupRun::Watch kWatch>
void WorkgroupRun::execute(Wave& wave, uint64_t& pc) {
    for (unsigned left = turns_.slice(); left > 0 && wave.state == WaveState::kRunning; --left) {
        if constexpr (kWatch == Watch::kNobody) {
            left = execute_simple<kTimed>(wave, pc, left);
            if (left == 0) {
                return;
            }
        }
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
        if (inst.ordering >= stop_at_) [[unlikely]] {
            wave.state = WaveState::kAwaitsTurn;
            return;
        }
        if (inst.arch_vgprs > wave.arch_vgpr_count || inst.acc_vgprs > wave.acc_vgpr_count) [[unlikely]] {
            if (!take_agprs_as_vgprs(wave, inst, code_)) {
                fault_beyond_allocation(wave, inst);
            }
        }
        if constexpr (kWatch == Watch::kChecks) {
            checks_->before(wave, inst, pc);
        }
        wave.pc = pc + 4u * inst.size_dwords;
        if (!inst.run) {
            throw Fault("instruction is not implemented by the emulated device");
        }
        if constexpr (kTimed) {
            uint64_t stall = timers_[wave.wave_id].issue(wave, inst);
            if (!collected_->counters.empty()) {
                PcCounter& counter = collected_->counters[(pc - code_.address()) / 4];
                ++counter.executions;
                counter.stall += stall;
            }
        }
        if constexpr (kWatch == Watch::kLateMemory) {
            late_->complete_before(wave, inst, pc);
            if (late_results_) {
                late_results_->before(wave, inst);
            }
            late_->run(wave, inst, pc);
            if (late_results_) {
                late_results_->after(wave, inst);
            }
        } else {
            inst.run(wave, inst);
        }
        if (wave.pc != pc + 4u * inst.size_dwords) {
            if constexpr (kTimed) {
                timers_[wave.wave_id].take_branch();
            }
            if (wave.pc <= pc) {
                note_branch_back(wave, pc);
            }
        }
        if constexpr (kWatch == Watch::kChecks) {
            checks_->after(wave, inst, pc);
        }
        ++wave.instructions;
    }
}

}  // namespace asmevo::emulator
