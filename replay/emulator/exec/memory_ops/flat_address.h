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
    uint64_t lowest = 0, highest = 0;  // over all lanes, where bounded
    bool is_bounded = false;
};

/// Adds 32-bit offsets to a uniform base.
inline void add_offsets(uint64_t base, const uint32_t* offsets, LaneAddresses& out) {
    uint32_t lowest = ~0u, highest = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        out.lane[lane] = base + offsets[lane];
        lowest = offsets[lane] < lowest ? offsets[lane] : lowest;
        highest = offsets[lane] > highest ? offsets[lane] : highest;
    }
    out.lowest = base + lowest;
    out.highest = base + highest;
    out.is_bounded = true;
}

/// Address of each lane before the segment is resolved: for scratch, the byte offset in the lane's
/// private memory.
template <Segment S>
inline void compute_addresses(const Wave& wave, const Inst& inst, LaneAddresses& out) {
    const Operand &vaddr = inst.src[0], &saddr = inst.src[2];
    const uint64_t offset = static_cast<uint64_t>(static_cast<int64_t>(inst.offset));
    if constexpr (S == Segment::kScratch) {
        constexpr uint32_t zeros[kLanes] = {};
        const uint64_t base = offset + (saddr ? read_scalar32(wave, saddr) : 0);
        add_offsets(base, vaddr ? wave.lanes(vaddr.index) : zeros, out);
    } else if (saddr) {
        add_offsets(offset + read_scalar64(wave, saddr), wave.lanes(vaddr.index), out);
    } else {
        const uint32_t *low = wave.lanes(vaddr.index),
                       *high = wave.lanes(static_cast<uint16_t>(vaddr.index + 1));
        uint32_t difference = 0;
        for (int lane = 0; lane < kLanes; ++lane) {
            difference |= high[lane] ^ high[0];
        }
        if (difference == 0) {
            add_offsets(offset + (static_cast<uint64_t>(high[0]) << 32), low, out);
            return;
        }
        for (int lane = 0; lane < kLanes; ++lane) {
            out.lane[lane] = offset + (static_cast<uint64_t>(high[lane]) << 32 | low[lane]);
        }
    }
}

[[noreturn]] void throw_scratch_out_of_range(uint64_t offset, uint32_t size, uint32_t allocated,
                                             int lane);

/// Private memory is lane-major here. Hardware swizzles it by dwords, which no program sees: it
/// reaches another lane's memory only through a wrong offset, and that is refused.
inline uint8_t* scratch_access(Wave& wave, uint64_t offset, uint32_t size, int lane) {
    if (offset >= wave.scratch_stride || wave.scratch_stride - offset < size) [[unlikely]] {
        throw_scratch_out_of_range(offset, size, wave.scratch_stride, lane);
    }
    return reinterpret_cast<uint8_t*>(wave.scratch_base) +
           static_cast<uint64_t>(lane) * wave.scratch_stride + offset;
}

template <Segment S, bool Atomic = false>
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
    if constexpr (Atomic) {
        return wave.memory.access_atomic(address, size, lane);
    }
    return wave.memory.access(address, size, write, lane);
}

}  // namespace asmevo::emulator
