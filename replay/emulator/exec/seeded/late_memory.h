// Memory operations that complete late, at moments that a seed chooses: what a program may see that does not wait.
//
// An operation is issued with its addresses, data and EXEC; it runs, and its result reaches registers, LDS or memory,
// when an s_waitcnt covers it or the seed says so. Until then registers and memory keep their old content. Operations of
// one queue complete in order (vector memory; LDS), scalar loads in any order, FLAT behind both queues. A program that
// waits as the ISA asks gives the same results for every seed.
//
// It decides whether a missing wait or barrier shows, for the proof that the checks report those that do; so it shares
// no code with exec/wait_tracking and exec/checks.
#pragma once

#include <vector>

#include "exec/seeded/random.h"
#include "exec/wave.h"

namespace asmevo::emulator {

class LateMemory {
  public:
    explicit LateMemory(uint64_t seed) : seed_(seed) {}

    void restart(uint64_t workgroup, size_t waves);

    /// Before an instruction: completes what is due, or waited for. `pc` is the instruction's; it names an older one when
    /// that one's completion throws Fault.
    void complete_before(Wave& wave, const Inst& inst, uint64_t& pc);
    /// Called in place of the handler.
    void run(Wave& wave, const Inst& inst, uint64_t& pc);
    /// The last `store` that is outstanding takes these of its data registers as they are now.
    void take_late_data(Wave& wave, const Inst& store, const RegSpan& data);

    /// All live waves stand at a barrier. Some of what they left outstanding completes.
    void pass_barrier(Workgroup& group);
    /// The waves had their turns: those that did not run for long complete everything.
    void end_turns(Workgroup& group);

  private:
    struct Operation {
        const Inst* inst;
        uint64_t pc;
        uint64_t due;                    // number of the wave's instruction before which it completes
        bool counts_vm, counts_lgkm;
        uint64_t exec;
        uint32_t m0;
        std::vector<uint32_t> operands;  // of the registers that it reads
    };
    struct Queue {
        std::vector<Operation> operations;  // in issue order
        Random random;
        unsigned idle_turns = 0;
    };

    void issue(Wave& wave, Queue& queue, const Inst& inst, uint64_t& pc);
    void wait(Wave& wave, Queue& queue, uint32_t simm, uint64_t& pc);
    void limit(Wave& wave, Queue& queue, bool Operation::*counter, unsigned keep, uint64_t& pc);
    void complete(Wave& wave, Queue& queue, size_t index, uint64_t& pc);
    void complete_due(Wave& wave, Queue& queue, uint64_t& pc);
    void complete_all(Wave& wave, Queue& queue, uint64_t& pc);
    uint64_t due_after(const Wave& wave, Queue& queue, const Inst& inst);

    uint64_t seed_;
    std::vector<Queue> queues_;  // by wave
};

}  // namespace asmevo::emulator
