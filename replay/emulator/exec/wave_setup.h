// The state in which the hardware starts a workgroup: LLVM AMDGPUUsage, "Initial Kernel Execution State".
#pragma once

#include "exec/dispatch.h"

namespace asmevo::emulator {

/// Registers of each file that a kernel's waves get.
struct VgprAllocation {
    uint32_t arch = 0, acc = 0;
};
VgprAllocation vgpr_allocation(const KernelImage& kernel);

/// VGPRs behind accum_offset are the registers that are also named a0 and following, and AITER's attention kernels use
/// them as VGPRs. Here the two files are apart: only a wave whose code names no AGPR gets them, and then has none. False
/// where it cannot be.
bool take_agprs_as_vgprs(Wave& wave, const Inst& inst, const CodeSegment& code);

/// The first pc: 256 bytes past the entry when kernel arguments are preloaded.
uint64_t start_address(const KernelImage& kernel);

/// Scratch bytes a lane, rounded up to dwords; kernels with a dynamic stack get a fixed reserve.
uint32_t scratch_bytes_per_lane(const KernelImage& kernel);

/// The private memory of a workgroup's waves, lane after lane. Its size is the same for all workgroups of a dispatch.
class ScratchMemory {
  public:
    ScratchMemory() = default;
    ~ScratchMemory();
    ScratchMemory(const ScratchMemory&) = delete;
    ScratchMemory& operator=(const ScratchMemory&) = delete;

    /// Fills it anew with `fill`; `is_visible` when programs reach it through a buffer descriptor (gfx90a).
    void prepare(size_t bytes, uint32_t fill, bool is_visible);
    uint32_t* data() { return words_.data(); }

  private:
    std::vector<uint32_t> words_;
    bool is_visible_ = false;
};

/// A workgroup with its waves and the memory behind them; reused for one workgroup after another.
struct WorkgroupStorage {
    Workgroup group;
    ScratchMemory scratch;
};

/// Puts `storage` into the start state of workgroup `id`.
void set_up_workgroup(DispatchContext& dispatch, Dim3 id, WorkgroupStorage& storage);

}  // namespace asmevo::emulator
