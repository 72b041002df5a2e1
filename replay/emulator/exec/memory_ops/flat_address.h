// Lane addresses of FLAT, GLOBAL and SCRATCH instructions.
#pragma once

#include <cinttypes>
#include <cstdio>

#include "exec/memory_ops/data.h"
#include "exec/memory_ops/lds.h"

namespace asmevo::emulator {

enum class Segment : uint8_t { kFlat, kGlobal, kScratch };

struct LaneAddresses {
    uint64_t lane[kLanes];
};

/// Address of each lane before the segment is resolved: for scratch, the byte offset in the lane's private memory.
template <Segment S>
inline void compute_addresses(const Wave& wave, const Inst& inst, LaneAddresses& out) {
    const Operand &vaddr = inst.src[0], &saddr = inst.src[2];
    const uint64_t offset = static_cast<uint64_t>(static_cast<int64_t>(inst.offset));
    if constexpr (S == Segment::kScratch) {
        const uint64_t base = offset + (saddr ? read_scalar32(wave, saddr) : 0);
        const uint32_t* low = vaddr ? wave.lanes(vaddr.index) : nullptr;
        for (int lane = 0; lane < kLanes; ++lane) {
            out.lane[lane] = base + (low != nullptr ? low[lane] : 0);
        }
    } else if (saddr) {
        const uint64_t base = offset + read_scalar64(wave, saddr);
        const uint32_t* low = wave.lanes(vaddr.index);
        for (int lane = 0; lane < kLanes; ++lane) {
            out.lane[lane] = base + low[lane];
        }
    } else {
        const uint32_t *low = wave.lanes(vaddr.index), *high = wave.lanes(vaddr.index + 1);
        for (int lane = 0; lane < kLanes; ++lane) {
            out.lane[lane] = offset + (static_cast<uint64_t>(high[lane]) << 32 | low[lane]);
        }
    }
}

[[noreturn]] void throw_scratch_out_of_range(uint64_t offset, uint32_t size, uint32_t allocated, int lane);

/// Private memory is lane-major here. Hardware swizzles it by dwords, which no program sees: it reaches another lane's
/// memory only through a wrong offset, and that is refused.
inline uint8_t* scratch_access(Wave& wave, uint64_t offset, uint32_t size, int lane) {
    if (offset >= wave.scratch_stride || wave.scratch_stride - offset < size) [[unlikely]] {
        throw_scratch_out_of_range(offset, size, wave.scratch_stride, lane);
    }
    return reinterpret_cast<uint8_t*>(wave.scratch_base) + static_cast<uint64_t>(lane) * wave.scratch_stride + offset;
}

template <Segment S>
inline uint8_t* resolve(Wave& wave, uint64_t address, uint32_t size, bool write, int lane) {
    if constexpr (S == Segment::kScratch) {
        return scratch_access(wave, address, size, lane);
    }
    if constexpr (S == Segment::kFlat) {
        if (address - kSharedApertureBase < kApertureSize) {
            return lds_access(wave, address - kSharedApertureBase, size, lane);
        }
        if (address - kPrivateApertureBase < kApertureSize) {
            return scratch_access(wave, address - kPrivateApertureBase, size, lane);
        }
    }
    return wave.memory.access(address, size, write, lane);
}

}  // namespace asmevo::emulator
