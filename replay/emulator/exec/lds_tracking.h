// LDS accesses of a workgroup that were not complete when they should have been.
//
// s_barrier does not wait for memory operations: a wave that reaches it with an LDS access still outstanding (no
// s_waitcnt lgkmcnt covers it) may have that access done after another wave's access behind the barrier. Likewise the
// data of a load to LDS is there only when vmcnt of its wave covers it, for that wave as well. Both work by luck on
// hardware most of the time; here they are findings. Accesses of LDS between two barriers are not ordered by this file.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "exec/checks/finding.h"
#include "exec/wave.h"

namespace asmevo::emulator {

class LdsTracker {
  public:
    explicit LdsTracker(Reporter& reporter) : reporter_(reporter) {}

    void reset(size_t waves, size_t lds_bytes);

    /// An access that is about to execute.
    void note(const Wave& wave, const Inst& inst, uint64_t pc);

    /// All live waves have reached the barrier: keeps what is outstanding.
    void pass_barrier(const Workgroup& group);

  private:
    struct Access {
        const Inst* inst = nullptr;
        uint64_t pc = 0, exec = 0;
        std::array<uint32_t, kLanes> address{};
    };
    /// The last accesses of a wave, as many as its counter can have outstanding.
    template <size_t kSize>
    struct Ring {
        std::array<Access, kSize> entries;
        uint64_t count = 0;
        static constexpr unsigned size() { return kSize; }
        Access& next() { return entries[count++ % kSize]; }
        /// The i-th last one.
        const Access& last(uint64_t i) const { return entries[(count - 1 - i) % kSize]; }
    };
    struct WaveAccesses {
        Ring<16> lds;
        std::unique_ptr<Ring<64>> from_memory;
        // Outstanding at the last barrier. Other waves' accesses before the next one are not ordered with them, even if
        // this wave waits for them in the meantime.
        std::vector<Access> carried;
    };

    void check_carried(const Wave& wave, const Access& access) const;
    void check_own_loads(const Wave& wave, const Access& access) const;
    bool may_meet_carried(const Access& access) const;
    template <size_t kSize>
    void carry(WaveAccesses& wave, const Ring<kSize>& ring, unsigned outstanding);

    Reporter& reporter_;
    std::vector<WaveAccesses> waves_;
    std::vector<uint64_t> carried_reads_, carried_writes_;  // bit per dword: touched by what passed a barrier
    bool has_carried_ = false, has_loads_ = false;
};

}  // namespace asmevo::emulator
