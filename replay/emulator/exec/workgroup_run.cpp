#include "exec/workgroup_run.h"

#include "exec/fault.h"
#include "exec/fault_report.h"
#include "exec/wait_tracking.h"

namespace asmevo::emulator {
namespace {

// Instructions a wave runs before the next one gets its turn: long enough to keep its registers in the cache, short
// enough that waves that wait for each other through memory make progress.
constexpr unsigned kSlice = 4096;

}  // namespace

WorkgroupRun::WorkgroupRun(DispatchContext& dispatch, Dim3 id)
    : dispatch_(dispatch), code_(*dispatch.request->kernel->code) {
    restart(id);
}

void WorkgroupRun::restart(Dim3 id) {
    set_up_workgroup(dispatch_, id, storage_);
    wave_count_ = storage_.group.waves.size();
    instructions_ = 0;
}

bool WorkgroupRun::step() {
    bool is_live = false;
    uint64_t before = instructions_;
    for (auto& wave : storage_.group.waves) {
        if (wave->state == WaveState::kRunning) {
            run_slice(*wave);
        }
        is_live = is_live || wave->state != WaveState::kDone;
    }
    uint64_t ran = instructions_ - before;
    uint64_t total = dispatch_.wave_instructions.fetch_add(ran, std::memory_order_relaxed) + ran;
    if (is_live && total > dispatch_.max_wave_instructions) {
        throw FaultReport{watchdog_report(dispatch_, storage_.group)};
    }
    if (is_live) {
        release_barrier();
    }
    return !is_live;
}

void WorkgroupRun::release_barrier() {
    // Ended waves no longer take part (CDNA3 ISA, s_barrier).
    for (auto& wave : storage_.group.waves) {
        if (wave->state == WaveState::kRunning) {
            return;
        }
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
        execute(wave, pc);
    } catch (const Fault& fault) {
        throw FaultReport{fault_report(dispatch_, wave, pc, fault)};
    }
    instructions_ += wave.instructions - before;
}

void WorkgroupRun::execute(Wave& wave, uint64_t& pc) {
    for (unsigned left = kSlice; left > 0 && wave.state == WaveState::kRunning; --left) {
        pc = wave.pc;
        const Inst& inst = code_.at(pc);
        if (inst.arch_vgprs > wave.arch_vgpr_count || inst.acc_vgprs > wave.acc_vgpr_count) {
            fault_beyond_allocation(wave, inst);
        }
        if (!wave.pending.empty()) {
            check_pending(wave, inst);
        }
        wave.pc = pc + 4u * inst.size_dwords;
        if (!inst.run) {
            throw Fault("instruction is not implemented by the emulated device");
        }
        inst.run(wave, inst);
        if (inst.wait_class != WaitClass::kNone) {
            add_pending(wave, inst, pc);
        }
        ++wave.instructions;
    }
}

}  // namespace asmevo::emulator
