#include "exec/checks/accesses.h"

#include <algorithm>
#include <string_view>

#include "exec/memory_ops/buffer_address.h"
#include "exec/memory_ops/flat_address.h"
#include "exec/memory_ops/lds.h"

namespace asmevo::emulator {
namespace {

using Kind = AccessShape::Kind;

bool has(std::string_view name, std::string_view part) { return name.find(part) != name.npos; }

Kind kind_of(const Inst& inst) {
    switch (inst.info->encoding) {
        case Encoding::kFlat: return Kind::kFlat;
        case Encoding::kGlobal: return Kind::kGlobal;
        case Encoding::kScratch: return Kind::kScratch;
        case Encoding::kMubuf: return Kind::kBuffer;
        case Encoding::kDs:
            if (!(inst.info->flags & kLds)) {
                return Kind::kNone;  // permutes use no memory
            }
            return inst.src[0] ? Kind::kLds : Kind::kAddtid;
        default: return Kind::kNone;
    }
}

uint16_t memory_bytes(const Inst& inst, std::string_view name, const AccessShape& shape) {
    if (has(name, "byte")) {
        return 1;
    }
    if (has(name, "short")) {
        return 2;
    }
    if (shape.loads_to_lds) {
        return has(name, "dwordx4") ? 16 : has(name, "dwordx3") ? 12 : 4;
    }
    if (shape.is_atomic()) {
        return static_cast<uint16_t>(4 * dword_count(inst.info->dst[0]));
    }
    return static_cast<uint16_t>(4 * (shape.is_write ? inst.src[1].dwords : inst.dst[0].dwords));
}

/// Calls `body(lane, address)` with the address before its aperture is looked at.
template <Segment S, typename Body>
void each_address(const Wave& wave, const Inst& inst, Body body) {
    LaneAddresses addresses;
    compute_addresses<S>(wave, inst, addresses);
    for_each_lane(wave.exec(), [&](int lane) { body(static_cast<uint8_t>(lane), addresses.lane[lane]); });
}

Access resolve_flat(uint64_t address, uint16_t bytes, uint8_t lane) {
    if (address - kSharedApertureBase < kApertureSize) {
        return {address - kSharedApertureBase, bytes, lane, Space::kLds};
    }
    if (address - kPrivateApertureBase < kApertureSize) {
        return {address - kPrivateApertureBase, bytes, lane, Space::kScratch};
    }
    return {address, bytes, lane, Space::kMemory};
}

void resolve_lds(const Wave& wave, const Inst& inst, const AccessShape& shape, Accesses& out) {
    const uint32_t* address = wave.lanes(inst.src[0].index);
    const auto offset = static_cast<uint32_t>(inst.offset);
    for_each_lane(wave.exec(), [&](int lane) {
        for (unsigned piece = 0; piece < shape.pieces; ++piece) {
            const uint32_t own = shape.pieces == 2 ? (offset >> (8 * piece) & 255) * shape.scale : offset;
            out.add({uint32_t{address[lane] + own}, shape.bytes, static_cast<uint8_t>(lane), Space::kLds,
                     static_cast<uint8_t>(piece)});
        }
    });
}

void resolve_buffer(const Wave& wave, const Inst& inst, const AccessShape& shape, Accesses& out) {
    const BufferAccess access(wave, inst);
    for_each_lane(wave.exec(), [&](int lane) {
        const BufferOffset offset = access.at(lane);
        uint16_t bytes = 0;
        while (bytes < shape.bytes && access.in_range(offset, bytes)) {
            bytes = static_cast<uint16_t>(bytes + std::min<unsigned>(4, shape.bytes));
        }
        if (bytes > 0) {
            out.add({access.address(offset), bytes, static_cast<uint8_t>(lane), Space::kMemory});
        }
    });
}

}  // namespace

AccessShape access_shape(const Inst& inst) {
    AccessShape shape;
    shape.kind = kind_of(inst);
    const std::string_view name = inst.info->name;
    if (shape.kind == Kind::kNone || inst.info->category == Category::kVmemCache || has(name, "format") ||
        inst.gds) {
        shape.kind = Kind::kNone;
        return shape;
    }
    shape.is_transposing = has(name, "_tr_");
    if (shape.kind == Kind::kAddtid) {
        shape.bytes = 4;
        shape.is_write = static_cast<bool>(inst.src[1]);
        shape.is_read = !shape.is_write;
        return shape;
    }
    if (shape.kind == Kind::kLds) {
        const LdsShape& lds = inst.lds_shape;
        shape.bytes = lds.bytes;
        shape.pieces = lds.pieces;
        shape.scale = lds.scale;
        shape.is_write = lds.is_write;
        shape.is_read = !lds.is_write || lds.is_atomic;
        return shape;
    }
    const Category category = inst.info->category;
    const bool is_atomic = category == Category::kVmemAtomic || category == Category::kFlatAtomic;
    shape.is_write = is_atomic || category == Category::kVmemStore || category == Category::kFlatStore;
    shape.is_read = is_atomic || !shape.is_write;
    shape.loads_to_lds = inst.lds_shape.from_memory;
    shape.lds_stride = shape.loads_to_lds ? inst.lds_shape.bytes : 0;
    shape.bytes = memory_bytes(inst, name, shape);
    return shape;
}

LdsFootprint lds_footprint(const Wave& wave, const Inst& inst, const AccessShape& shape) {
    LdsFootprint found;
    const uint64_t exec = wave.exec();
    if (shape.kind != Kind::kLds || exec == 0) {
        return found;
    }
    const uint32_t* address = wave.lanes(inst.src[0].index);
    uint32_t lowest = ~0u, highest = 0, all_bits = 0;
    if (exec == ~uint64_t{0}) {
        const uint32_t start = address[0], stride = shape.bytes;
        uint32_t gaps = 0;
        for (uint32_t lane = 0; lane < kLanes; ++lane) {
            const uint32_t one = address[lane];
            lowest = one < lowest ? one : lowest;
            highest = one > highest ? one : highest;
            all_bits |= one;
            gaps |= one ^ (start + lane * stride);
        }
        found.is_contiguous = gaps == 0;
    } else {
        for_each_lane(exec, [&](int lane) {
            lowest = std::min(lowest, address[lane]);
            highest = std::max(highest, address[lane]);
            all_bits |= address[lane];
        });
    }
    found.is_known = true;
    found.low_bits = all_bits;
    const auto offset = static_cast<uint32_t>(inst.offset);
    for (unsigned piece = 0; piece < shape.pieces; ++piece) {
        const uint32_t own = shape.pieces == 2 ? (offset >> (8 * piece) & 255) * shape.scale : offset;
        found.offset[piece] = own;
        found.first[piece] = lowest + own;
        found.end[piece] = highest + own + shape.bytes;
        found.low_bits |= own;
        found.is_known = found.is_known && uint64_t{highest} + own + shape.bytes <= wave.group->lds.size();
    }
    return found;
}

void resolve_accesses(const Wave& wave, const Inst& inst, const AccessShape& shape, Accesses& out) {
    const uint16_t bytes = shape.bytes;
    switch (shape.kind) {
        case Kind::kNone: return;
        case Kind::kLds: resolve_lds(wave, inst, shape, out); return;
        case Kind::kAddtid: {
            const uint32_t base = lds_base_from_m0(wave, inst) + static_cast<uint32_t>(inst.offset);
            for_each_lane(wave.exec(), [&](int lane) {
                out.add({base + 4u * static_cast<unsigned>(lane), bytes, static_cast<uint8_t>(lane), Space::kLds});
            });
            return;
        }
        case Kind::kFlat:
            each_address<Segment::kFlat>(wave, inst, [&](uint8_t lane, uint64_t address) {
                out.add(resolve_flat(address, bytes, lane));
            });
            return;
        case Kind::kGlobal:
            each_address<Segment::kGlobal>(wave, inst, [&](uint8_t lane, uint64_t address) {
                out.add({address, bytes, lane, Space::kMemory});
            });
            return;
        case Kind::kScratch:
            each_address<Segment::kScratch>(wave, inst, [&](uint8_t lane, uint64_t address) {
                out.add({address, bytes, lane, Space::kScratch});
            });
            return;
        case Kind::kBuffer: resolve_buffer(wave, inst, shape, out); return;
    }
}

void resolve_lds_dma(const Wave& wave, const Inst& inst, const AccessShape& shape, Accesses& out) {
    const uint32_t base = lds_base_from_m0(wave, inst) + static_cast<uint32_t>(inst.offset);
    for_each_lane(wave.exec(), [&](int lane) {
        out.add({base + static_cast<uint32_t>(lane) * shape.lds_stride, shape.lds_stride,
                 static_cast<uint8_t>(lane), Space::kLds});
    });
}

}  // namespace asmevo::emulator
