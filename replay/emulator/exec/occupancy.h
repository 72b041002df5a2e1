// How many workgroups a chip holds at once: one answer for the executor's residency, the timing model, hipOccupancy* and
// the limit of cooperative launches.
#pragma once

#include <cstdint>

#include "exec/dispatch.h"

namespace asmevo::emulator {

constexpr uint32_t kSimds = 4, kMaxWavesPerSimd = 8, kVgprsPerSimd = 512, kSgprsPerSimd = 800;
// Workgroups of more than one wave need a barrier resource each (LLVM, getMaxWorkGroupsPerCU).
constexpr uint32_t kMaxBarriersPerUnit = 16;

/// LDS of a compute unit, bytes.
uint32_t lds_bytes_per_unit(Target target);

/// Compute units of the chip that stands for a target when none is named.
uint32_t usual_compute_units(Target target);

/// Workgroups that one compute unit holds: limited by wave slots, registers, LDS and barriers. 0: not even one.
uint32_t workgroups_per_unit(const KernelImage& kernel, uint64_t work_items, uint64_t dynamic_lds);

/// Workgroups that the chip of the request holds.
uint64_t resident_workgroups(const DispatchRequest& request);

}  // namespace asmevo::emulator
