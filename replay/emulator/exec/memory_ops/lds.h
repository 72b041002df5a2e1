// Access to a workgroup's LDS. Every DS, FLAT and LDS-DMA access passes through here.
#pragma once

#include <cstdint>

#include "exec/fault.h"
#include "exec/wave.h"

namespace asmevo::emulator {

[[noreturn]] void throw_lds_out_of_range(uint64_t address, uint32_t size, uint64_t allocated,
                                         int lane);
[[noreturn]] void throw_misaligned(const char* space, uint64_t address, uint32_t alignment,
                                   int lane);

/// Host pointer to `size` bytes of LDS at byte `address`, or a Fault. Hardware drops accesses
/// beyond the allocation; a kernel that makes them is wrong, so they are refused.
inline uint8_t* lds_access(Wave& wave, uint64_t address, uint32_t size, int lane) {
    std::vector<uint8_t>& lds = wave.group->lds;
    if (address >= lds.size() || lds.size() - address < size) [[unlikely]] {
        throw_lds_out_of_range(address, size, lds.size(), lane);
    }
    return lds.data() + address;
}

/// Atomic operations must be naturally aligned; plain ones need not be
/// (SH_MEM_CONFIG.ALIGNMENT_MODE is "unaligned" under HSA, LLVM's unaligned-access-mode and
/// unaligned-ds-access).
inline void require_aligned(const char* space, uint64_t address, uint32_t alignment, int lane) {
    if ((address & (alignment - 1)) != 0) [[unlikely]] {
        throw_misaligned(space, address, alignment, lane);
    }
}

/// Global data share: no compiler emits it any more, and this device has none.
inline void refuse_gds(const Inst& inst) {
    if (inst.gds) [[unlikely]] {
        throw Fault("GDS is not implemented");
    }
}

/// Address of a DS access. The sum is 32 bits wide: a negative base with an offset is usual
/// compiler output.
inline uint32_t ds_address(const Wave& wave, const Inst& inst, int lane) {
    return wave.lanes(inst.src[0].index)[lane] + static_cast<uint32_t>(inst.offset);
}

/// LDS byte offset that M0 holds for LDS-DMA and the addtid forms: 16 bits; gfx950 has 160 KiB and
/// uses 18.
inline uint32_t lds_base_from_m0(const Wave& wave, const Inst& inst) {
    return wave.m0() & (inst.target == Target::kGfx950 ? 0x3ffffu : 0xffffu);
}

/// True when a load to LDS has a base beyond all LDS of a compute unit. Hardware drops what it would
/// write there, and Triton holds a wave back so, whose data another wave loads: M0 = 0x7fffffff.
bool is_held_back(const Inst& inst, uint64_t base);

}  // namespace asmevo::emulator
