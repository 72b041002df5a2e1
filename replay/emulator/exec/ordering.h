// Which instructions of a workgroup may not run ahead of other workgroups', so that a result does not depend on the number
// of host threads.
//
// Workgroups can learn of each other only through device-scope operations: atomics that return a value, loads that bypass
// the compute unit's cache, and cache invalidations (LLVM AMDGPUUsage, memory models of gfx90a and gfx942). Where a kernel
// has one of these, its stores are what they may read. Atomics that return nothing show their order only if they round.
#pragma once

#include <cstdint>

#include "exec/dispatch.h"

namespace asmevo::emulator {

/// Whether the instruction's target stands in registers, or it leaves the code by other ways than a branch.
bool jumps_indirectly(const Inst& inst);

/// The order of an instruction that CodeSegment decodes.
Ordering ordering_of(const Inst& inst);

/// Waves of a workgroup that runs ahead of others stop at instructions of this order and above; `highest` is the highest
/// order in its code.
constexpr Ordering stop_ahead_at(Ordering highest) {
    return highest == Ordering::kSynchronises ? Ordering::kStore : Ordering::kRounds;
}

}  // namespace asmevo::emulator
