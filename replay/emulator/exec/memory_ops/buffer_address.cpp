#include "exec/memory_ops/buffer_address.h"

#include <algorithm>

#include "exec/memory_ops/flat_address.h"

namespace asmevo::emulator {
namespace {

uint32_t bits(uint32_t word, unsigned low, unsigned count) {
    return word >> low & ((1u << count) - 1);
}

// The descriptor no longer has ELEMENT_SIZE on gfx9: swizzling works on dwords.
constexpr uint64_t kElementSize = 4;

uint64_t swizzled_offset(const BufferDescriptor& descriptor, uint64_t index, uint64_t offset) {
    const uint64_t index_msb = index / descriptor.index_stride,
                   index_lsb = index % descriptor.index_stride;
    const uint64_t offset_msb = offset / kElementSize, offset_lsb = offset % kElementSize;
    return (index_msb * descriptor.stride + offset_msb * kElementSize) * descriptor.index_stride +
           index_lsb * kElementSize + offset_lsb;
}

}  // namespace

BufferDescriptor read_descriptor(const Wave& wave, const Operand& srsrc) {
    const uint32_t* word = &wave.sgpr[srsrc.index];
    BufferDescriptor out;
    out.base = static_cast<uint64_t>(word[1] & 0xffff) << 32 | word[0];
    out.stride = bits(word[1], 16, 14);
    out.swizzle = bits(word[1], 31, 1) != 0;
    out.num_records = word[2];
    for (unsigned i = 0; i < 4; ++i) {
        out.dst_sel[i] = static_cast<uint8_t>(bits(word[3], 3 * i, 3));
    }
    out.num_format = static_cast<uint8_t>(bits(word[3], 12, 3));
    out.data_format = static_cast<uint8_t>(bits(word[3], 15, 4));
    out.index_stride = 8u << bits(word[3], 21, 2);
    out.add_tid = bits(word[3], 23, 1) != 0;
    if (out.add_tid) {
        out.stride |= static_cast<uint32_t>(out.data_format) << 14;
    }
    return out;
}

BufferAccess::BufferAccess(const Wave& wave, const Inst& inst)
    : descriptor_(read_descriptor(wave, inst.src[2])),
      soffset_(inst.src[3] ? read_scalar32(wave, inst.src[3]) : 0),
      inst_offset_(static_cast<uint32_t>(inst.offset)) {
    // With both enabled the index stands in the first VGPR and the offset in the second (ISA table
    // "VADDR").
    if (inst.idxen) {
        index_lanes_ = wave.lanes(inst.src[0].index);
    }
    if (inst.offen) {
        offset_lanes_ = wave.lanes(static_cast<uint16_t>(inst.src[0].index + (inst.idxen ? 1 : 0)));
    }
    // The stack pointer of gfx90a's buffer scratch counts bytes of the whole wave, 64 interleaved
    // lanes; here a lane's memory is one piece (put_scratch_descriptor), so its part is added to
    // the offset within the lane.
    is_private_ =
        descriptor_.add_tid && wave.scratch_stride != 0 && descriptor_.base == wave.scratch_base;
    if (is_private_) {
        inst_offset_ += static_cast<uint32_t>(soffset_ / kLanes);
        soffset_ = 0;
    }
    is_structured_ = descriptor_.stride != 0 && (inst.idxen || descriptor_.add_tid);
    is_linear_ = !is_structured_ && !(descriptor_.swizzle && descriptor_.stride != 0);
}

BufferOffset BufferAccess::at(int lane) const {
    BufferOffset out;
    out.index = (index_lanes_ != nullptr ? index_lanes_[lane] : 0) +
                static_cast<uint64_t>(descriptor_.add_tid ? lane : 0);
    out.offset =
        static_cast<uint64_t>(inst_offset_) + (offset_lanes_ != nullptr ? offset_lanes_[lane] : 0);
    if (descriptor_.swizzle && descriptor_.stride != 0) {
        out.buffer_offset = swizzled_offset(descriptor_, out.index, out.offset);
    } else {
        out.buffer_offset = out.index * descriptor_.stride + out.offset;
    }
    return out;
}

void BufferAccess::require_private(const BufferOffset& offset, uint32_t skip) const {
    if (offset.offset + skip >= descriptor_.stride) {
        throw_scratch_out_of_range(offset.offset + skip, 1, descriptor_.stride,
                                   static_cast<int>(offset.index));
    }
}

bool BufferAccess::all_addresses(const Wave& wave, uint64_t exec, uint32_t size, bool write,
                                 uint64_t out[kLanes]) const {
    if (!is_linear_ || offset_lanes_ == nullptr || exec == 0) {
        return false;
    }
    uint32_t lowest = ~0u, highest = 0;
    if (exec == ~0ull) {
        for (int lane = 0; lane < kLanes; ++lane) {
            lowest = std::min(lowest, offset_lanes_[lane]);
            highest = std::max(highest, offset_lanes_[lane]);
        }
    } else {
        for_each_lane(exec, [&](int lane) {
            lowest = std::min(lowest, offset_lanes_[lane]);
            highest = std::max(highest, offset_lanes_[lane]);
        });
    }
    const uint64_t uniform = soffset_ + inst_offset_;
    const uint64_t first = descriptor_.base + uniform + lowest;
    if (uniform + highest + size > descriptor_.num_records ||
        !wave.memory.is_cached(first, static_cast<uint64_t>(highest) - lowest + size, write)) {
        return false;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
        out[lane] = descriptor_.base + uniform + offset_lanes_[lane];
    }
    return true;
}

}  // namespace asmevo::emulator
