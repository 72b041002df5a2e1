// The memory that an instruction is about to touch, lane by lane, as its handler will resolve it.
#pragma once

#include "exec/wave.h"

namespace asmevo::emulator {

enum class Space : uint8_t { kLds, kMemory, kScratch };

struct Access {
    uint64_t address;  // LDS byte, device address, or offset in the lane's scratch
    uint16_t bytes;
    uint8_t lane;
    Space space;
    uint8_t piece = 0;  // the second of read2/write2: 1
};

/// How an instruction reaches memory; decided once an instruction.
struct AccessShape {
    enum class Kind : uint8_t { kNone, kLds, kAddtid, kFlat, kGlobal, kScratch, kBuffer } kind = Kind::kNone;
    uint16_t bytes = 0;        // of one lane's access, or of one of the two of read2/write2
    uint8_t pieces = 1;
    uint16_t scale = 1;        // of the two offsets
    bool is_read = false, is_write = false;  // both: an atomic
    bool loads_to_lds = false;  // LDS-DMA: what the shape says is the side of memory
    uint16_t lds_stride = 0;    // LDS-DMA: bytes a lane in LDS
    bool is_transposing = false;
    bool is_atomic() const { return is_read && is_write; }
};

AccessShape access_shape(const Inst& inst);

/// Where a DS instruction with an address register goes, all active lanes together.
struct LdsFootprint {
    bool is_known = false;       // it is such an instruction, and the workgroup's LDS holds all its accesses
    bool is_contiguous = false;  // each lane's access follows the last one's, and no lane is off
    uint32_t low_bits = 0;       // a bit that is set in an address or an offset is set here
    uint32_t offset[2] = {};     // of the pieces
    uint32_t first[2] = {}, end[2] = {};  // bytes that each piece keeps within
};

LdsFootprint lds_footprint(const Wave& wave, const Inst& inst, const AccessShape& shape);

/// Lane accesses of one instruction; in range or not.
struct Accesses {
    static constexpr unsigned kMost = 2 * kLanes;
    Access list[kMost];
    unsigned count = 0;

    void add(const Access& access) { list[count++] = access; }
    const Access* begin() const { return list; }
    const Access* end() const { return list + count; }
};

/// The accesses that the shape describes. Buffer accesses out of the descriptor's range are left out: they are dropped.
void resolve_accesses(const Wave& wave, const Inst& inst, const AccessShape& shape, Accesses& out);
/// The LDS side of LDS-DMA.
void resolve_lds_dma(const Wave& wave, const Inst& inst, const AccessShape& shape, Accesses& out);

}  // namespace asmevo::emulator
