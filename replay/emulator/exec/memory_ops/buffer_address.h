// Buffer resource descriptors (V#) and the addresses and range checks that follow from them, as
// gfx9 does them.
#pragma once

#include <cstdint>

#include "exec/memory_ops/data.h"

namespace asmevo::emulator {

/// A 128-bit V# (Vega ISA, table "Buffer Resource Descriptor"; gfx90a and gfx94x keep that layout).
struct BufferDescriptor {
    uint64_t base;    // bits 47:0
    uint32_t stride;  // bits 61:48; 18 bits with add_tid_enable, which takes DATA_FORMAT's field
    bool swizzle;     // bit 63
    uint32_t num_records;   // bits 95:64
    uint8_t dst_sel[4];     // bits 107:96, 3 bits each
    uint8_t num_format;     // bits 110:108
    uint8_t data_format;    // bits 114:111
    uint32_t index_stride;  // bits 118:117: 8, 16, 32 or 64
    bool add_tid;           // bit 119
};

BufferDescriptor read_descriptor(const Wave& wave, const Operand& srsrc);

/// One lane's access before the range check.
struct BufferOffset {
    uint64_t index = 0;
    uint64_t offset = 0;  // inst_offset + VGPR offset: what swizzling and structured checks look at
    uint64_t buffer_offset = 0;  // bytes from base + soffset
};

/// Addresses of a whole instruction: everything that is uniform, and the two VGPRs that are not.
class BufferAccess {
  public:
    BufferAccess(const Wave& wave, const Inst& inst);

    const BufferDescriptor& descriptor() const { return descriptor_; }
    BufferOffset at(int lane) const;
    uint64_t address(const BufferOffset& offset) const {
        return descriptor_.base + soffset_ + offset.buffer_offset;
    }

    /// Whether the element `skip` bytes into the access is in range. Raw buffers are checked by
    /// bytes and take soffset into account, so each dword of a wide access has its own answer;
    /// structured ones by index and by offset within the record. Sums are 64 bits wide, so a masked
    /// offset such as 0x80000000 never wraps into range.
    ///
    /// Raw: out of range if buffer_offset >= NUM_RECORDS - sgpr_offset (GCN3/Vega/CDNA3 ISA, "Range
    /// Checking"). LLVM's intrinsic documentation calls soffset "excluded from bounds checking";
    /// the ISA is followed, and where the two differ the ISA drops more accesses. gfx9 decides raw
    /// or structured by IDXEN and STRIDE (Mesa's comment on NUM_RECORDS for GFX9: byte units if
    /// inst.IDXEN == 0 or STRIDE == 0, else units of STRIDE).
    bool in_range(const BufferOffset& offset, uint32_t skip) const {
        if (is_private_) [[unlikely]] {
            require_private(offset, skip);
            return true;
        }
        if (is_structured_) {
            return offset.index < descriptor_.num_records &&
                   offset.offset + skip < descriptor_.stride;
        }
        return offset.buffer_offset + skip + soffset_ < descriptor_.num_records;
    }

    /// Addresses of all lanes of `exec`, when the access is linear, every lane is in range with all
    /// its bytes, and one allocation that the wave has looked up holds them all. False otherwise:
    /// then each lane needs a look of its own.
    bool all_addresses(const Wave& wave, uint64_t exec, uint32_t size, bool write,
                       uint64_t out[kLanes]) const;

  private:
    void require_private(const BufferOffset& offset, uint32_t skip) const;

    BufferDescriptor descriptor_;
    uint64_t soffset_;
    uint32_t inst_offset_;
    const uint32_t* index_lanes_ = nullptr;
    const uint32_t* offset_lanes_ = nullptr;
    bool is_private_ = false;  // gfx90a's scratch descriptor: one lane's memory, never another's
    bool is_structured_ = false;
    // No stride, no swizzle: base + soffset + 32-bit VGPR offset + immediate.
    bool is_linear_ = false;
};

}  // namespace asmevo::emulator
