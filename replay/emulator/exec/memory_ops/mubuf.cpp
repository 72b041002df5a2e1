// MUBUF loads, stores, LDS-DMA and cache control (CDNA3 ISA chapter 9). Atomics stand in
// buffer_atomics.cpp, the formatted operations of MUBUF and MTBUF in buffer_format_ops.cpp.
#include <algorithm>

#include "exec/join_rows.h"
#include "exec/memory_ops/all_lanes.h"
#include "exec/memory_ops/buffer_address.h"
#include "exec/memory_ops/buffer_rows.h"
#include "exec/memory_ops/lds.h"
#include "isa/tables.h"

namespace asmevo::emulator {
namespace {

/// Loads check each dword of its own: those out of range read as zero (ISA, "Range Checking", note
/// 4).
template <Data D>
void fetch(Wave& wave, const BufferAccess& access, int lane, uint8_t* bytes) {
    constexpr uint32_t piece = std::min(size_bytes(D), 4u);
    const BufferOffset offset = access.at(lane);
    const uint64_t address = access.address(offset);
    for (uint32_t skip = 0; skip < size_bytes(D); skip += piece) {
        if (access.in_range(offset, skip)) {
            std::memcpy(bytes + skip, wave.memory.access(address + skip, piece, false, lane),
                        piece);
        } else {
            std::memset(bytes + skip, 0, piece);
        }
    }
}

template <Data D>
void load_to_registers(Wave& wave, const Inst& inst) {
    const BufferAccess access(wave, inst);
    const uint16_t target = inst.dst[0].index;
    const uint64_t exec = wave.exec();
    uint64_t addresses[kLanes];
    if (access.all_addresses(wave, exec, size_bytes(D), false, addresses)) {
        if (exec == ~0ull) {
            load_all_lanes<D>(wave, target, addresses);
            return;
        }
        for_each_lane(exec, [&](int lane) {
            load_lane<D>(wave, target, lane, reinterpret_cast<const uint8_t*>(addresses[lane]));
        });
        return;
    }
    // The result may overwrite the address registers: a lane's address is read before its result is
    // written.
    for_each_lane(exec, [&](int lane) {
        uint8_t bytes[size_bytes(D)];
        fetch<D>(wave, access, lane, bytes);
        load_lane<D>(wave, target, lane, bytes);
    });
}

/// LDS address: M0 + immediate + lane * stride. Sub-dword data is widened to a dword, and a lane
/// out of range writes zeros, as its register would read zero.
template <Data D>
void load_to_lds(Wave& wave, const Inst& inst) {
    constexpr uint32_t stride = std::max(size_bytes(D), 4u);
    const BufferAccess access(wave, inst);
    const uint64_t base = lds_base_from_m0(wave, inst) + static_cast<uint64_t>(inst.offset);
    if (is_held_back(inst, base)) {
        return;
    }
    for_each_lane(wave.exec(), [&](int lane) {
        uint8_t bytes[stride];
        fetch<D>(wave, access, lane, bytes);
        uint8_t* target =
            lds_access(wave, base + static_cast<uint64_t>(lane) * stride, stride, lane);
        if constexpr (size_bytes(D) < 4) {
            const uint32_t value = widen<D>(bytes);
            std::memcpy(target, &value, 4);
        } else {
            std::memcpy(target, bytes, stride);
        }
    });
}

template <Data D>
void load(Wave& wave, const Inst& inst) {
    if (inst.lds) {
        if constexpr (is_half(D)) {
            throw Fault("a D16 buffer load cannot write to LDS");
        } else {
            load_to_lds<D>(wave, inst);
        }
    } else {
        load_to_registers<D>(wave, inst);
    }
}

template <Data D>
void store(Wave& wave, const Inst& inst) {
    if (inst.lds) [[unlikely]] {
        throw Fault("the LDS bit of a buffer store is not implemented");
    }
    constexpr uint32_t piece = std::min(size_bytes(D), 4u);
    const BufferAccess access(wave, inst);
    const uint16_t source = inst.src[1].index;
    const uint64_t exec = wave.exec();
    uint64_t addresses[kLanes];
    if (access.all_addresses(wave, exec, size_bytes(D), true, addresses)) {
        if (exec == ~0ull) {
            store_all_lanes<D>(wave, source, addresses);
            return;
        }
        for_each_lane(exec, [&](int lane) {
            store_lane<D>(wave, source, lane, reinterpret_cast<uint8_t*>(addresses[lane]));
        });
        return;
    }
    for_each_lane(exec, [&](int lane) {
        uint8_t bytes[std::max(size_bytes(D), 4u)];
        store_lane<D>(wave, source, lane, bytes);
        const BufferOffset offset = access.at(lane);
        const uint64_t address = access.address(offset);
        for (uint32_t skip = 0; skip < size_bytes(D); skip += piece) {
            if (access.in_range(offset, skip)) {
                std::memcpy(wave.memory.access(address + skip, piece, true, lane), bytes + skip,
                            piece);
            }
        }
    });
}

void store_from_lds(Wave& wave, const Inst& inst) {
    const BufferAccess access(wave, inst);
    const uint64_t base = lds_base_from_m0(wave, inst) + static_cast<uint64_t>(inst.offset);
    for_each_lane(wave.exec(), [&](int lane) {
        const BufferOffset offset = access.at(lane);
        if (access.in_range(offset, 0)) {
            const uint8_t* source =
                lds_access(wave, base + static_cast<uint64_t>(lane) * 4, 4, lane);
            std::memcpy(wave.memory.access(access.address(offset), 4, true, lane), source, 4);
        }
    });
}

/// Cache write-back and invalidation: this device has no caches that could be stale.
void cache_control(Wave&, const Inst&) {}

template <Data D>
constexpr OpInfo load_row(const char* name, uint16_t opcode) {
    return buffer_row(Encoding::kMubuf, name, opcode, kAllTargets, Category::kVmemLoad,
                      register_type(D), Type::kNone, is_half(D) ? kDstIsRead : kNoFlags, load<D>);
}

template <Data D>
constexpr OpInfo store_row(const char* name, uint16_t opcode) {
    return buffer_row(Encoding::kMubuf, name, opcode, kAllTargets, Category::kVmemStore,
                      Type::kNone, register_type(D), kNoFlags, store<D>);
}

constexpr OpInfo cache_row(const char* name, uint16_t opcode, TargetMask targets) {
    return OpInfo{.name = name,
                  .encoding = Encoding::kMubuf,
                  .opcode = opcode,
                  .targets = targets,
                  .category = Category::kVmemCache,
                  .dst = {},
                  .src = {},
                  .flags = kIgnoresExec,
                  .run = cache_control};
}

constexpr OpInfo kRows[] = {
    load_row<Data::kU8>("buffer_load_ubyte", 0x10),
    load_row<Data::kI8>("buffer_load_sbyte", 0x11),
    load_row<Data::kU16>("buffer_load_ushort", 0x12),
    load_row<Data::kI16>("buffer_load_sshort", 0x13),
    load_row<Data::kB32>("buffer_load_dword", 0x14),
    load_row<Data::kB64>("buffer_load_dwordx2", 0x15),
    load_row<Data::kB96>("buffer_load_dwordx3", 0x16),
    load_row<Data::kB128>("buffer_load_dwordx4", 0x17),
    store_row<Data::kU8>("buffer_store_byte", 0x18),
    store_row<Data::kU8High>("buffer_store_byte_d16_hi", 0x19),
    store_row<Data::kU16>("buffer_store_short", 0x1a),
    store_row<Data::kB16High>("buffer_store_short_d16_hi", 0x1b),
    store_row<Data::kB32>("buffer_store_dword", 0x1c),
    store_row<Data::kB64>("buffer_store_dwordx2", 0x1d),
    store_row<Data::kB96>("buffer_store_dwordx3", 0x1e),
    store_row<Data::kB128>("buffer_store_dwordx4", 0x1f),
    load_row<Data::kU8Low>("buffer_load_ubyte_d16", 0x20),
    load_row<Data::kU8High>("buffer_load_ubyte_d16_hi", 0x21),
    load_row<Data::kI8Low>("buffer_load_sbyte_d16", 0x22),
    load_row<Data::kI8High>("buffer_load_sbyte_d16_hi", 0x23),
    load_row<Data::kB16Low>("buffer_load_short_d16", 0x24),
    load_row<Data::kB16High>("buffer_load_short_d16_hi", 0x25),
    buffer_row(Encoding::kMubuf, "buffer_store_lds_dword", 0x3d, kGfx90aBit, Category::kVmemStore,
               Type::kNone, Type::kNone, kReadsM0 | kLds, store_from_lds),
    cache_row("buffer_wbl2", 0x28, kAllTargets),
    cache_row("buffer_invl2", 0x29, kGfx90aBit),
    cache_row("buffer_inv", 0x29, kGfx940Plus),
    cache_row("buffer_wbinvl1", 0x3e, kGfx90aBit),
    cache_row("buffer_wbinvl1_vol", 0x3f, kGfx90aBit),
};

}  // namespace

std::span<const OpInfo> mubuf_ops() {
    static const std::vector<OpInfo> rows =
        join_rows({kRows, buffer_atomic_rows(), buffer_format_rows()});
    return rows;
}

}  // namespace asmevo::emulator
