// Undefined data through memory: what is not moved by handlers on the shadow.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "exec/checks/undefined/undefined_tracking.h"
#include "exec/scalar/smem_address.h"

namespace asmevo::emulator {
namespace {

constexpr unsigned kMostBytes = 16;  // of a lane's access

bool has(const Inst& inst, std::string_view part) {
    return std::string_view(inst.info->name).find(part) != std::string_view::npos;
}

/// Bits of a loaded dword that the operation writes: the other half of a D16 load is kept.
uint32_t loaded_bits(const Inst& inst) {
    if (has(inst, "d16_hi")) {
        return 0xffff0000;
    }
    return has(inst, "_d16") && inst.dst[0].dwords == 1 ? 0x0000ffff : ~0u;
}

/// One undefined bit decides the sign, which fills the rest.
bool extends_sign(const Inst& inst) { return has(inst, "sbyte") || has(inst, "sshort"); }

/// Whether `body(begin, end)` is true for a run of bytes that the lanes access one behind the other.
template <typename Body>
bool any_run(const Accesses& accesses, Body body) {
    uint64_t begin = 0, end = 0;
    for (const Access& access : accesses) {
        if (access.address == end) {
            end += access.bytes;
            continue;
        }
        if (begin != end && body(begin, end)) {
            return true;
        }
        begin = access.address;
        end = begin + access.bytes;
    }
    return begin != end && body(begin, end);
}

/// Calls `body(dword number, bytes of the access in it, offset in the access of the dword's first byte)`.
template <typename Body>
void each_dword(uint64_t address, uint64_t bytes, Body body) {
    const uint64_t end = address + bytes;
    for (uint64_t dword = address / 4; dword * 4 < end; ++dword) {
        uint8_t mask = 0;
        for (uint64_t byte = 0; byte < 4; ++byte) {
            const uint64_t at = dword * 4 + byte;
            mask = static_cast<uint8_t>(mask | (at >= address && at < end) << byte);
        }
        body(dword, mask, static_cast<int64_t>(dword * 4 - address));
    }
}

/// Where dword `i` of a scalar load is; 0: nowhere, so that it reads as zero.
uint64_t scalar_dword(const Wave& wave, const Inst& inst, unsigned i) {
    if (!has(inst, "s_buffer_load")) {
        return scalar_address(wave, inst) + 4 * i;
    }
    const ScalarBuffer buffer(&wave.sgpr[inst.src[0].index]);
    const uint64_t offset = (scalar_offset(wave, inst) & kDwordAligned) + 4 * i;
    return buffer.holds(offset, 4) ? buffer.at(offset) : 0;
}

bool is_scalar_load(const Inst& inst) {
    return inst.info->encoding == Encoding::kSmem && inst.dst[0] && inst.src[0] && !has(inst, "s_scratch_");
}

bool is_atomic(const Inst& inst) {
    return inst.info->category == Category::kVmemAtomic || inst.info->category == Category::kFlatAtomic;
}

}  // namespace

/// Whether a load or store that moves defined data meets undefined memory, or memory of which the shadow has a copy. What
/// it stores elsewhere counts as written from here on, so that such an instruction needs no closer look.
bool UndefinedTracker::meets_undefined(const Wave& wave, const Inst& inst, const FlowPlan& plan,
                                       const AccessShape& access) {
    const bool is_private = access.kind == AccessShape::Kind::kFlat ||
                            (access.kind == AccessShape::Kind::kBuffer && wave.scratch_stride != 0);
    if ((plan.flow != Flow::kLoad && plan.flow != Flow::kStore) ||
        (unwritten_.is_empty() && !memory_.has_stores() && !is_private)) {
        return false;
    }
    if (inst.info->encoding == Encoding::kSmem) {
        return meets_undefined_scalar(wave, inst);
    }
    accesses_.count = 0;
    resolve_accesses(wave, inst, access, accesses_);
    const uint64_t scratch_bytes = uint64_t{wave.scratch_stride} * kLanes;
    if (is_private && std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& one) {
            return one.space != Space::kMemory || one.address - wave.scratch_base < scratch_bytes;
        })) {
        return true;
    }
    const bool looks = access.is_read || memory_.has_stores();
    if (looks && any_run(accesses_, [this](uint64_t begin, uint64_t end) { return is_undefined(begin, end); })) {
        return true;
    }
    if (access.is_write && !unwritten_.is_empty()) {
        any_run(accesses_, [this](uint64_t begin, uint64_t end) { return note_written(begin, end); });
    }
    return false;
}

bool UndefinedTracker::meets_undefined_scalar(const Wave& wave, const Inst& inst) {
    for (unsigned i = 0; is_scalar_load(inst) && i < inst.dst[0].dwords; ++i) {
        if (undefined_bytes(scalar_dword(wave, inst, i) / 4) != 0) {
            return true;
        }
    }
    return false;
}

bool UndefinedTracker::is_undefined(uint64_t begin, uint64_t end) {
    bool found = false;
    if (memory_.has_stores()) {
        each_dword(begin, end - begin, [&](uint64_t dword, uint8_t mask, int64_t) {
            found = found || (undefined_bytes(dword) & mask) != 0;
        });
        return found;
    }
    const UnwrittenRange* range = find_range(begin, end);
    return range && range->has_unwritten(begin, end);
}

UnwrittenRange* UndefinedTracker::find_range(uint64_t begin, uint64_t end) {
    UnwrittenRange* const range = unwritten_.find(begin);
    return range ? range : unwritten_.find(end - 1);
}

/// Bit per undefined byte of a dword in device memory.
uint8_t UndefinedTracker::undefined_bytes(uint64_t dword) {
    unsigned bytes = memory_.has_stores() ? memory_.stored_bytes(dword) : 0;
    if (const UnwrittenRange* range = unwritten_.find(dword * 4)) {
        bytes |= range->unwritten_bytes(dword / 2 * 8) >> (dword & 1 ? 4 : 0) & 15;
    }
    return static_cast<uint8_t>(bytes);
}

/// False, so that it goes on.
bool UndefinedTracker::note_written(uint64_t begin, uint64_t end) {
    if (UnwrittenRange* range = find_range(begin, end)) {
        range->note_write(begin, end);
    }
    return false;
}

/// The shadow's copy of memory that belongs to the workgroup: LDS and, by whatever way, scratch. Null: device memory, or an
/// access that itself faults.
uint8_t* UndefinedTracker::private_bits(Step& step, const Access& access) {
    const Wave& shadow = step.shadow.wave;
    const uint64_t stride = shadow.scratch_stride, end = access.address + access.bytes;
    if (access.space == Space::kLds) {
        return end <= group_.lds.size() ? &group_.lds[access.address] : nullptr;
    }
    uint64_t offset = access.address - step.wave.scratch_base;
    if (access.space == Space::kScratch) {
        offset = end <= stride ? access.lane * stride + access.address : ~uint64_t{0};
    }
    const uint64_t size = stride * kLanes;
    return offset < size && size - offset >= access.bytes ? reinterpret_cast<uint8_t*>(shadow.scratch_base + offset)
                                                          : nullptr;
}

/// A byte of bits for each of the access's.
void UndefinedTracker::find_undefined(Step& step, const Access& access, uint8_t* bits) {
    std::memset(bits, 0, access.bytes);
    if (const uint8_t* own = private_bits(step, access)) {
        std::memcpy(bits, own, access.bytes);
    } else if (access.space == Space::kMemory) {
        each_dword(access.address, access.bytes, [&](uint64_t dword, uint8_t mask, int64_t offset) {
            const unsigned bytes = undefined_bytes(dword) & mask;
            for (int byte = 0; byte < 4; ++byte) {
                if (bytes >> byte & 1) {
                    bits[offset + byte] = 0xff;
                }
            }
        });
    }
}

void UndefinedTracker::set_undefined(Step& step, const Access& access, const uint8_t* bits) {
    if (uint8_t* own = private_bits(step, access)) {
        std::memcpy(own, bits, access.bytes);
        return;
    }
    if (access.space != Space::kMemory) {
        return;
    }
    note_written(access.address, access.address + access.bytes);
    each_dword(access.address, access.bytes, [&](uint64_t dword, uint8_t mask, int64_t offset) {
        UndefinedMemory::Store store{step.pc, step.wave.wave_id, access.lane, step.wave.group->id, 0};
        for (int byte = 0; byte < 4; ++byte) {
            const bool is_one = mask >> byte & 1 && bits[offset + byte] != 0;
            store.bytes = static_cast<uint8_t>(store.bytes | is_one << byte);
        }
        memory_.store(dword, mask, store);
    });
}

/// LDS atomics, without a closer look at the operation.
void UndefinedTracker::flow_lane_atomic(Step& step) {
    Wave& shadow = step.shadow.wave;
    const Inst& inst = step.inst;
    accesses_.count = 0;
    resolve_accesses(step.wave, inst, step.access, accesses_);
    const uint64_t data = undefined_lanes(step, inst.src[1]) | undefined_lanes(step, inst.src[2]);
    for (const Access& access : accesses_) {
        uint8_t* const bits = private_bits(step, access);
        if (!bits) {
            continue;  // the access itself faults
        }
        const bool was = std::any_of(bits, bits + access.bytes, [](uint8_t byte) { return byte != 0; });
        const bool is_now = (was && !has(inst, "wrxchg")) || (data >> access.lane & 1);
        std::memset(bits, is_now ? 0xff : 0, access.bytes);
        const unsigned first = access.piece * access.bytes / 4u;
        for (unsigned i = 0; inst.dst[0] && i < access.bytes / 4u; ++i) {
            shadow.lanes(static_cast<uint16_t>(inst.dst[0].index + first + i))[access.lane] = was ? ~0u : 0;
        }
    }
}

/// Atomics on device memory, or on what FLAT reaches.
void UndefinedTracker::flow_atomic(Step& step) {
    const Inst& inst = step.inst;
    const uint64_t data = undefined_lanes(step, inst.src[1]);
    const bool is_swap = has(inst, "_swap");
    accesses_.count = 0;
    resolve_accesses(step.wave, inst, step.access, accesses_);
    for (const Access& access : accesses_) {
        uint8_t bits[kMostBytes];
        find_undefined(step, access, bits);
        const bool was = std::any_of(bits, bits + access.bytes, [](uint8_t byte) { return byte != 0; });
        std::memset(bits, (was && !is_swap) || (data >> access.lane & 1) ? 0xff : 0, access.bytes);
        set_undefined(step, access, bits);
        for (unsigned i = 0; inst.dst[0].is_vgpr() && i < inst.dst[0].dwords; ++i) {
            step.shadow.wave.lanes(static_cast<uint16_t>(inst.dst[0].index + i))[access.lane] = was ? ~0u : 0;
        }
    }
}

/// Vector and scalar loads from device memory, and LDS-DMA.
void UndefinedTracker::flow_load(Step& step) {
    if (step.access.loads_to_lds) {
        load_to_lds(step);
    } else if (step.inst.dst[0].is_sgpr()) {
        load_scalar(step);
    } else if (step.inst.dst[0]) {
        load_vector(step);
    }
}

void UndefinedTracker::load_to_lds(Step& step) {
    uint8_t bits[kLanes][kMostBytes] = {};  // lanes out of a buffer's range load zeros
    accesses_.count = 0;
    resolve_accesses(step.wave, step.inst, step.access, accesses_);
    for (const Access& access : accesses_) {
        find_undefined(step, access, bits[access.lane]);
    }
    accesses_.count = 0;
    resolve_lds_dma(step.wave, step.inst, step.access, accesses_);
    for (const Access& access : accesses_) {
        set_undefined(step, access, bits[access.lane]);
    }
}

void UndefinedTracker::load_scalar(Step& step) {
    const Operand& dst = step.inst.dst[0];
    for (unsigned i = 0; i < dst.dwords; ++i) {
        const uint64_t address = is_scalar_load(step.inst) ? scalar_dword(step.wave, step.inst, i) : 0;
        step.shadow.wave.sgpr[dst.index + i] = undefined_bytes(address / 4) != 0 ? ~0u : 0;
    }
}

void UndefinedTracker::load_vector(Step& step) {
    Wave& shadow = step.shadow.wave;
    const Inst& inst = step.inst;
    const Operand& dst = inst.dst[0];
    const uint32_t loaded = loaded_bits(inst);
    for (unsigned i = 0; i < dst.dwords; ++i) {
        uint32_t* lanes = shadow.lanes(static_cast<uint16_t>(dst.index + i));
        for (int lane = 0; lane < kLanes; ++lane) {
            lanes[lane] &= step.wave.exec() >> lane & 1 ? ~loaded : ~0u;
        }
    }
    accesses_.count = 0;
    resolve_accesses(step.wave, inst, step.access, accesses_);
    const unsigned skip = has(inst, "d16_hi") ? 2 : 0;
    for (const Access& access : accesses_) {
        uint8_t bits[kMostBytes];
        find_undefined(step, access, bits);
        for (unsigned byte = 0; byte < access.bytes; ++byte) {
            const unsigned at = byte + skip;
            if (bits[byte] != 0 && at / 4 < dst.dwords) {
                const uint32_t own = extends_sign(inst) ? loaded : uint32_t{bits[byte]} << (8 * (at % 4));
                shadow.lanes(static_cast<uint16_t>(dst.index + at / 4))[access.lane] |= own;
            }
        }
    }
}

void UndefinedTracker::flow_store(Step& step) {
    if (is_atomic(step.inst)) {
        flow_atomic(step);
        return;
    }
    const Operand& data = step.inst.src[1];
    if (!data.is_vgpr()) {
        return;
    }
    const unsigned skip = has(step.inst, "d16_hi") ? 2 : 0;
    accesses_.count = 0;
    resolve_accesses(step.wave, step.inst, step.access, accesses_);
    for (const Access& access : accesses_) {
        uint8_t bits[kMostBytes];
        for (unsigned byte = 0; byte < access.bytes; ++byte) {
            const unsigned at = byte + skip;
            const uint32_t dword = step.shadow.wave.lanes(static_cast<uint16_t>(data.index + at / 4))[access.lane];
            bits[byte] = static_cast<uint8_t>(dword >> (8 * (at % 4)));
        }
        set_undefined(step, access, bits);
    }
}

}  // namespace asmevo::emulator
