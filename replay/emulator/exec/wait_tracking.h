// Wait counters: which registers are still being loaded, and which s_waitcnt proves them loaded.
//
// vmcnt:   one queue in issue order: loads, stores, atomics, LDS-DMA.
// lgkmcnt: LDS returns in order; scalar loads and messages in any order, so while one of them is outstanding only
//          lgkmcnt(0) proves anything.
// FLAT:    counts on both and may return out of order on both: only zero proves anything while one is outstanding.
// (CDNA3 ISA 4.4 "Manually inserted wait states and s_waitcnt"; LLVM SIInsertWaitcnts counterOutOfOrder.)
// A counter has an upper limit; the hardware issues no further operation until it falls, so the oldest in-order
// operation is complete then.
#pragma once

#include "exec/checks/finding.h"
#include "exec/wave.h"

namespace asmevo::emulator {

constexpr unsigned kVmLimit = 63, kLgkmLimit = 15;

/// Reports a missing wait when `inst` reads or overwrites a register that a pending operation fills.
void check_pending(Wave& wave, const Inst& inst, uint64_t pc, Reporter& reporter);

/// Notes a memory operation that has just been issued.
void add_pending(Wave& wave, const Inst& inst, uint64_t pc);

/// s_waitcnt: at most `vm` and `lgkm` operations stay outstanding.
void wait_counters(Wave& wave, unsigned vm, unsigned lgkm);

}  // namespace asmevo::emulator
