// Results that arrive late where hardware does not wait by itself: what a program may see that lacks wait states.
//
// An instruction that reads a register too early gets what was there before; a vector result that is written too early
// behind a matrix operation is overwritten by that one's; a matrix operation adds to a sum that was overwritten too early,
// and a wide store takes data that was. Whether it happens each time, the seed says. A program that keeps the wait states
// gives the same results for every seed.
//
// It decides whether a missing s_nop shows, for the proof that the checks report those that do; so it shares no code with
// exec/checks. Not modelled: f64 FMA behind a f64 matrix operation, and registers that VGPR indexing chooses.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "exec/seeded/delays.h"
#include "exec/seeded/random.h"
#include "exec/wave.h"

namespace asmevo::emulator {

class LateMemory;

/// Bits of seeds, for kernels that themselves lack wait states. The first leaves late results out. The second leaves out
/// those two that AMD's own assembly does not wait for: scalars that the VALU reads behind the VALU, and M0.
constexpr uint64_t kMemoryOnly = uint64_t{1} << 63, kLenient = uint64_t{1} << 62;

class LateResults {
  public:
    LateResults(uint64_t seed, LateMemory& memory)
        : seed_(seed & ~kLenient), is_lenient_((seed & kLenient) != 0), memory_(memory) {}

    void restart(uint64_t workgroup, size_t waves);
    /// `inst` is about to execute: what it reads too early is replaced by what was there before.
    void before(Wave& wave, const Inst& inst);
    /// It has executed: what it did not write gets its value back.
    void after(Wave& wave, const Inst& inst);

  private:
    /// The registers of a span, and what they held.
    struct Copy {
        RegSpan span;
        std::vector<uint32_t> values;  // kLanes a VGPR
    };
    /// A result that may not have arrived everywhere.
    struct Result {
        const PipeTraits* traits;
        uint64_t clock;  // behind its instruction
        std::vector<Copy> before;
        std::vector<Copy> operands;  // of a matrix operation
        uint64_t exec;
        uint32_t m0, mode, trap_status;
    };
    struct State {
        std::deque<Result> results;  // oldest first
        std::vector<Copy> replaced, held;
        uint64_t clock = 0, exec = 0;
        uint32_t m0 = 0;
        bool is_exec_replaced = false, is_m0_replaced = false;
        Random random;
    };

    const PipeTraits& traits_of(const Inst& inst);
    static bool is_early(const State& state, const Result& result, unsigned delay) {
        return state.clock - result.clock < delay;
    }
    static bool happens(State& state) { return state.random.below(8) != 0; }
    void replace_registers(Wave& wave, State& state, const PipeTraits& consumer);
    void replace_state(Wave& wave, State& state, const PipeTraits& consumer);
    void hold_overwritten(Wave& wave, State& state, const PipeTraits& consumer);
    void put_back(Wave& wave, State& state, const Inst& inst);
    void overwrite_operands(Wave& wave, State& state, const PipeTraits& consumer);
    static void run_again(Wave& wave, const Result& result, const RegSpan& sum);

    uint64_t seed_;
    bool is_lenient_;
    LateMemory& memory_;
    std::unordered_map<const Inst*, PipeTraits> traits_;
    std::vector<State> waves_;
};

}  // namespace asmevo::emulator
