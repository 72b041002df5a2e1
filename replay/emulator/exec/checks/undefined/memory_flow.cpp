// Undefined data through memory: what is not moved by handlers on the shadow.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "exec/checks/undefined/undefined_tracking.h"

namespace asmevo::emulator {
namespace {

uint32_t byte_bits(uint8_t bytes) {
    uint32_t bits = 0;
    for (int byte = 0; byte < 4; ++byte) {
        bits |= bytes >> byte & 1 ? 0xffu << (8 * byte) : 0;
    }
    return bits;
}

/// Bits of a loaded dword that the operation writes: the other half of a D16 load is kept.
uint32_t loaded_bits(const Inst& inst) {
    const std::string_view name = inst.info->name;
    if (name.find("d16_hi") != name.npos) {
        return 0xffff0000;
    }
    return name.find("_d16") != name.npos && inst.dst[0].dwords == 1 ? 0x0000ffff : ~0u;
}

/// Calls `body(dword number, bytes of the access in it, offset in the access of the dword's first byte)`.
template <typename Body>
void each_dword(uint64_t address, unsigned bytes, Body body) {
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

}  // namespace

/// LDS atomics, without a closer look at the operation.
void UndefinedTracker::flow_lane_atomic(Step& step) {
    Wave& shadow = step.shadow.wave;
    const Inst& inst = step.inst;
    Accesses accesses;
    resolve_accesses(step.wave, inst, step.access, accesses);
    uint64_t data = undefined_lanes(step, inst.src[1]) | undefined_lanes(step, inst.src[2]);
    for (const Access& access : accesses) {
        if (access.address + access.bytes > group_.lds.size()) {
            continue;  // the access itself faults
        }
        uint8_t* bits = &group_.lds[access.address];
        const bool was = std::any_of(bits, bits + access.bytes, [](uint8_t byte) { return byte != 0; });
        const bool is_swap = std::string_view(inst.info->name).find("wrxchg") != std::string_view::npos;
        const bool is_now = (was && !is_swap) || (data >> access.lane & 1);
        std::memset(bits, is_now ? 0xff : 0, access.bytes);
        const unsigned first = access.piece * access.bytes / 4u;
        for (unsigned i = 0; inst.dst[0] && i < access.bytes / 4u; ++i) {
            shadow.lanes(static_cast<uint16_t>(inst.dst[0].index + first + i))[access.lane] = was ? ~0u : 0;
        }
    }
}

/// Vector and scalar loads from device memory, and LDS-DMA. All of it is defined, but for what this dispatch left undefined.
void UndefinedTracker::flow_load(Step& step) {
    Wave& shadow = step.shadow.wave;
    const Inst& inst = step.inst;
    Accesses accesses;
    if (step.access.loads_to_lds) {
        resolve_lds_dma(step.wave, inst, step.access, accesses);
        for (const Access& access : accesses) {
            if (access.address + access.bytes <= group_.lds.size()) {
                std::memset(&group_.lds[access.address], 0, access.bytes);
            }
        }
        return;
    }
    const Operand& dst = inst.dst[0];
    if (dst.is_sgpr()) {
        std::fill_n(&shadow.sgpr[dst.index], dst.dwords, 0u);
        return;
    }
    const uint32_t kept = ~loaded_bits(inst);
    for (unsigned i = 0; dst && i < dst.dwords; ++i) {
        uint32_t* lanes = shadow.lanes(static_cast<uint16_t>(dst.index + i));
        for (int lane = 0; lane < kLanes; ++lane) {
            lanes[lane] &= step.wave.exec() >> lane & 1 ? kept : ~0u;
        }
    }
    if (memory_.is_empty() || !dst) {
        return;
    }
    resolve_accesses(step.wave, inst, step.access, accesses);
    for (const Access& access : accesses) {
        each_dword(access.space == Space::kMemory ? access.address : 0,
                   access.space == Space::kMemory ? access.bytes : 0,
                   [&](uint64_t dword, uint8_t mask, int64_t offset) {
            const uint32_t bits = byte_bits(memory_.undefined_bytes(dword) & mask);
            const unsigned at = static_cast<unsigned>(std::max<int64_t>(offset, 0)) / 4;
            if (bits != 0 && at < dst.dwords) {
                shadow.lanes(static_cast<uint16_t>(dst.index + at))[access.lane] |= ~kept;
            }
        });
    }
}

void UndefinedTracker::flow_store(Step& step) {
    const Inst& inst = step.inst;
    const Operand& data = inst.src[1];
    if (inst.info->category == Category::kVmemAtomic || inst.info->category == Category::kFlatAtomic) {
        const Operand& dst = inst.dst[0];
        for (unsigned i = 0; dst.is_vgpr() && i < dst.dwords; ++i) {
            LaneArray zero{};
            merge_lanes(step.shadow.wave.lanes(static_cast<uint16_t>(dst.index + i)), zero.lane, step.wave.exec());
        }
    }
    const uint64_t lanes = undefined_lanes(step, data);
    if (!data.is_vgpr() || (lanes == 0 && memory_.is_empty() && inst.info->encoding != Encoding::kFlat)) {
        return;
    }
    const bool is_high = std::string_view(inst.info->name).find("d16_hi") != std::string_view::npos;
    Accesses accesses;
    resolve_accesses(step.wave, inst, step.access, accesses);
    for (const Access& access : accesses) {
        auto undefined = [&](unsigned byte) {
            const unsigned at = byte + (is_high ? 2 : 0);
            const uint32_t bits = step.shadow.wave.lanes(static_cast<uint16_t>(data.index + at / 4))[access.lane];
            return static_cast<uint8_t>(bits >> (8 * (at % 4)));
        };
        if (access.space == Space::kLds && access.address + access.bytes <= group_.lds.size()) {
            for (unsigned byte = 0; byte < access.bytes; ++byte) {
                group_.lds[access.address + byte] = undefined(byte);
            }
        }
        // gfx90a reaches scratch through buffers too: spilled registers may be undefined.
        const uint64_t scratch_bytes = uint64_t{step.wave.scratch_stride} * kLanes;
        if (access.space != Space::kMemory || access.address - step.wave.scratch_base < scratch_bytes) {
            continue;
        }
        each_dword(access.address, access.bytes, [&](uint64_t dword, uint8_t mask, int64_t offset) {
            UndefinedMemory::Store store{step.pc, step.wave.wave_id, access.lane, step.wave.group->id, 0};
            for (int byte = 0; byte < 4; ++byte) {
                const bool is_one = mask >> byte & 1 && undefined(static_cast<unsigned>(offset + byte)) != 0;
                store.bytes = static_cast<uint8_t>(store.bytes | is_one << byte);
            }
            memory_.store(dword, mask, store);
        });
    }
}

}  // namespace asmevo::emulator
