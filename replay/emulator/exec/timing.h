// The timing model: modelled cycles of a dispatch, for ranking candidates. Never a measured time.
//
// A wave has an in-order issue clock, in core cycles. The SIMD gives a wave an issue turn every 4 cycles (wave64 on a
// SIMD16), so an instruction costs at least one turn. Results of memory operations are complete after a fixed latency
// plus the time that their data needs on the wave's path to memory; s_waitcnt advances the clock to the completion of
// the operations that it waits for. The matrix core works beside the VALU; who reads a result that it still computes
// waits. s_barrier brings the clocks of a workgroup's waves together.
//
// A workgroup takes the clock of its slowest wave, plus what its other waves take from the units they share. A dispatch
// takes one workgroup's time, plus for every further workgroup on a CU the larger of its share of latency (divided by
// the workgroups that are resident together) and of its busiest unit; it cannot be faster than its bytes through the
// memory. Launch overhead is left out.
//
// Not modelled: caches, bank conflicts, coalescing, clock changes, imbalance between dies. Everything is deterministic
// and independent of the number of host threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exec/wave.h"

namespace asmevo::emulator {

// Sources in brackets: documentation of ROCm Compute Profiler [RPC], facebookexperimental/triton AMDLatencyModel.h on gfx950
// [TLX], MrRoy09/AMD-CDNA3-CacheBenchmarking on MI300X [L1B], LLVM SISchedule.td [LLVM].
constexpr uint64_t kTurn = 4;               // issue turn of a SIMD [RPC]
constexpr uint64_t kTransCycles = 16;       // quarter rate [LLVM]
constexpr uint64_t kTakenBranchCycles = 16; // refetch; LLVM guesses 32 for a branch
constexpr uint64_t kGlobalLatency = 500;    // between an L2 hit (208-224 [L1B]) and DRAM (790 [TLX])
constexpr uint64_t kAtomicLatency = 600;    // done at L2, one more round trip on its path
constexpr uint64_t kLdsLatency = 64;        // dependent chain of 69 including issue [TLX]
constexpr uint64_t kScalarLatency = 100;    // scalar L1 hit class
constexpr uint64_t kMessageLatency = 100;
constexpr uint64_t kVectorL1Bytes = 64;     // a cycle and CU [RPC]
constexpr uint64_t kMfmaExtraLatency = 2;   // beyond the passes: 18 cycles dependent against 16 [TLX]

/// Cycles for which units were busy, and bytes moved; summed over waves.
struct UnitUse {
    uint64_t valu = 0, mfma = 0, salu = 0;  // one of each a SIMD
    uint64_t lds = 0, vmem = 0;             // one a CU
    uint64_t bytes = 0;

    void add(const UnitUse& other) {
        valu += other.valu;
        mfma += other.mfma;
        salu += other.salu;
        lds += other.lds;
        vmem += other.vmem;
        bytes += other.bytes;
    }
};

/// Completion times of a counter's outstanding operations. The ring holds as many as the counter can count.
template <unsigned kSize>
class CounterQueue {
  public:
    void reset() { issued_ = 0, last_ = 0; }

    /// When the next operation may be issued: a full counter stalls.
    uint64_t room() const { return issued_ >= kSize - 1 ? done_[(issued_ - (kSize - 1)) % kSize] : 0; }

    void push(uint64_t done) {
        last_ = std::max(last_, done);
        done_[issued_++ % kSize] = last_;
    }

    /// When at most `keep` operations are outstanding.
    uint64_t at_most(uint64_t keep) const {
        return keep >= issued_ ? 0 : done_[(issued_ - 1 - std::min<uint64_t>(keep, kSize - 1)) % kSize];
    }

  private:
    uint64_t done_[kSize] = {};
    uint64_t issued_ = 0, last_ = 0;
};

/// One wave's clock. Owned by its WorkgroupRun.
class WaveTimer {
  public:
    void reset();

    /// Advances the clock over an instruction that is about to execute; returns the cycles that it stalled.
    uint64_t issue(const Wave& wave, const Inst& inst);
    /// Whether no matrix operation is under way: then issue_simple does what issue does for a plain VALU or SALU
    /// instruction, which never stalls.
    bool is_matrix_idle() const { return matrix_done_ <= clock_; }
    void issue_simple(bool is_vector, uint64_t cycles) {
        (is_vector ? use_.valu : use_.salu) += cycles;
        clock_ += cycles;
    }
    /// An instruction that s_setvskip passes over.
    void skip() { clock_ += kTurn; }
    void take_branch() { clock_ += kTakenBranchCycles; }
    /// Moves the clock to the end of a barrier; returns the cycles waited.
    uint64_t meet(uint64_t clock);

    uint64_t clock() const { return clock_; }
    const UnitUse& use() const { return use_; }

  private:
    void stall_until(uint64_t clock) { clock_ = std::max(clock_, clock); }
    uint64_t matrix_result(const RegSpan& span) const;
    void wait_for_matrix(const Inst& inst);
    void issue_mfma(const Inst& inst);
    void issue_vmem(const Wave& wave, const Inst& inst);
    void issue_lds(const Wave& wave, const Inst& inst);
    void wait(uint32_t simm);

    uint64_t clock_ = 0;
    uint64_t matrix_free_ = 0, matrix_done_ = 0;
    uint64_t vmem_free_ = 0, lds_free_ = 0;
    UnitUse use_;
    CounterQueue<64> vm_;
    CounterQueue<16> lgkm_;
    uint64_t matrix_ready_[512] = {};  // valid where above clock_
};

/// What the timers of all workgroups of a dispatch say together.
struct DispatchTiming {
    uint64_t workgroups = 0, sum_cycles = 0, max_cycles = 0;
    UnitUse use;

    /// Adds a workgroup that has ended.
    void add(const std::vector<WaveTimer>& waves);
    void add(const DispatchTiming& other);
};

struct DispatchRequest;
uint64_t modelled_cycles(const DispatchRequest& request, const DispatchTiming& timing);

}  // namespace asmevo::emulator
