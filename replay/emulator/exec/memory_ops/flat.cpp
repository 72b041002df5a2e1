// FLAT, GLOBAL and SCRATCH loads, stores and LDS-DMA (CDNA3 ISA chapter 10). Atomics stand in
// flat_atomics.cpp.

#include "exec/join_rows.h"
#include "exec/memory_ops/all_lanes.h"
#include "exec/memory_ops/flat_address.h"
#include "exec/memory_ops/flat_rows.h"
#include "isa/tables.h"

namespace asmevo::emulator {

void throw_scratch_out_of_range(uint64_t offset, uint32_t size, uint32_t allocated, int lane) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "scratch access of %u bytes at offset 0x%" PRIx64
                  " is outside the lane's %u bytes",
                  size, offset, allocated);
    throw Fault(text, lane, "out-of-bounds");
}

namespace {

/// True when every lane's access lies in one range the wave has already looked up.
bool all_in_one_range(const Wave& wave, const LaneAddresses& addresses, uint32_t size, bool write) {
    return addresses.is_bounded &&
           wave.memory.is_cached(addresses.lowest, addresses.highest - addresses.lowest + size,
                                 write);
}

/// `all(addresses)` where all lanes are active and their addresses known to be legal, else `body(lane, pointer)` for each
/// active lane.
template <Segment S, bool Write, uint32_t Size, typename All, typename Body>
void access_lanes(Wave& wave, const Inst& inst, All&& all, Body&& body) {
    const uint64_t exec = wave.exec();
    if (exec == 0) {
        return;
    }
    LaneAddresses addresses;
    compute_addresses<S>(wave, inst, addresses);
    // FLAT's apertures lie outside every allocation.
    if constexpr (S != Segment::kScratch) {
        if (exec == ~0ull && all_in_one_range(wave, addresses, Size, Write)) {
            all(addresses.lane);
            return;
        }
    }
    for_each_lane(exec, [&](int lane) {
        body(lane, resolve<S>(wave, addresses.lane[lane], Size, Write, lane));
    });
}

template <Segment S, Data D>
void store(Wave& wave, const Inst& inst) {
    const uint16_t source = inst.src[1].index;
    access_lanes<S, true, size_bytes(D)>(
        wave, inst, [&](const uint64_t* addresses) { store_all_lanes<D>(wave, source, addresses); },
        [&](int lane, uint8_t* target) { store_lane<D>(wave, source, lane, target); });
}

/// Memory to LDS: lane l writes LDS at M0 + offset + l * stride; sub-dword data is widened to a
/// dword (CDNA3 ISA 9.1.9, LLVM llvm.amdgcn.global.load.lds: the immediate applies to both
/// addresses).
template <Segment S, Data D>
void load_to_lds(Wave& wave, const Inst& inst) {
    constexpr uint32_t stride = size_bytes(D) < 4 ? 4 : size_bytes(D);
    const uint64_t base =
        lds_base_from_m0(wave, inst) + static_cast<uint64_t>(static_cast<int64_t>(inst.offset));
    if (is_held_back(inst, base)) {
        return;
    }
    const auto move_lane = [&](int lane, const uint8_t* source) {
        uint8_t* target =
            lds_access(wave, base + static_cast<uint64_t>(lane) * stride, stride, lane);
        if constexpr (size_bytes(D) < 4) {
            const uint32_t value = widen<D>(source);
            std::memcpy(target, &value, 4);
        } else {
            std::memcpy(target, source, size_bytes(D));
        }
    };
    const auto move_all = [&](const uint64_t* addresses) {
        for (int lane = 0; lane < kLanes; ++lane) {
            move_lane(lane, reinterpret_cast<const uint8_t*>(addresses[lane]));
        }
    };
    access_lanes<S, false, size_bytes(D)>(wave, inst, move_all, move_lane);
}

/// gfx90a's LDS bit: global and scratch loads of at most a dword write to LDS. Later chips have opcodes of their own.
template <Segment S, Data D>
void load_with_lds_bit(Wave& wave, const Inst& inst) {
    if constexpr (S == Segment::kFlat || is_half(D) || size_bytes(D) > 4) {
        throw Fault(std::string(inst.info->name) + " has no form that loads to LDS");
    } else {
        if (inst.target != Target::kGfx90a) {
            throw Fault("the LDS bit of FLAT loads exists on gfx90a only");
        }
        load_to_lds<S, D>(wave, inst);
    }
}

template <Segment S, Data D>
void load(Wave& wave, const Inst& inst) {
    if (inst.lds) [[unlikely]] {
        load_with_lds_bit<S, D>(wave, inst);
        return;
    }
    const uint16_t target = inst.dst[0].index;
    access_lanes<S, false, size_bytes(D)>(
        wave, inst, [&](const uint64_t* addresses) { load_all_lanes<D>(wave, target, addresses); },
        [&](int lane, const uint8_t* from) { load_lane<D>(wave, target, lane, from); });
}

template <Segment S, Data D>
constexpr OpInfo load_row(const char* name, uint16_t opcode) {
    return flat_row<S>(name, opcode, kAllTargets, Access::kLoad, register_type(D), Type::kNone,
                       is_half(D) ? kDstIsRead : kNoFlags, load<S, D>);
}

template <Segment S, Data D>
constexpr OpInfo store_row(const char* name, uint16_t opcode) {
    return flat_row<S>(name, opcode, kAllTargets, Access::kStore, Type::kNone, register_type(D),
                       kNoFlags, store<S, D>);
}

template <Segment S, Data D>
constexpr OpInfo lds_row(const char* name, uint16_t opcode, TargetMask targets) {
    return flat_row<S>(name, opcode, targets, Access::kLoad, Type::kNone, Type::kNone,
                       kReadsM0 | kLds, load_to_lds<S, D>);
}

constexpr auto kFlat = Segment::kFlat;
constexpr auto kGlobal = Segment::kGlobal;
constexpr auto kScratch = Segment::kScratch;

constexpr OpInfo kRows[] = {
    load_row<kFlat, Data::kU8>("flat_load_ubyte", 0x10),
    load_row<kFlat, Data::kI8>("flat_load_sbyte", 0x11),
    load_row<kFlat, Data::kU16>("flat_load_ushort", 0x12),
    load_row<kFlat, Data::kI16>("flat_load_sshort", 0x13),
    load_row<kFlat, Data::kB32>("flat_load_dword", 0x14),
    load_row<kFlat, Data::kB64>("flat_load_dwordx2", 0x15),
    load_row<kFlat, Data::kB96>("flat_load_dwordx3", 0x16),
    load_row<kFlat, Data::kB128>("flat_load_dwordx4", 0x17),
    store_row<kFlat, Data::kU8>("flat_store_byte", 0x18),
    store_row<kFlat, Data::kU8High>("flat_store_byte_d16_hi", 0x19),
    store_row<kFlat, Data::kU16>("flat_store_short", 0x1a),
    store_row<kFlat, Data::kB16High>("flat_store_short_d16_hi", 0x1b),
    store_row<kFlat, Data::kB32>("flat_store_dword", 0x1c),
    store_row<kFlat, Data::kB64>("flat_store_dwordx2", 0x1d),
    store_row<kFlat, Data::kB96>("flat_store_dwordx3", 0x1e),
    store_row<kFlat, Data::kB128>("flat_store_dwordx4", 0x1f),
    load_row<kFlat, Data::kU8Low>("flat_load_ubyte_d16", 0x20),
    load_row<kFlat, Data::kU8High>("flat_load_ubyte_d16_hi", 0x21),
    load_row<kFlat, Data::kI8Low>("flat_load_sbyte_d16", 0x22),
    load_row<kFlat, Data::kI8High>("flat_load_sbyte_d16_hi", 0x23),
    load_row<kFlat, Data::kB16Low>("flat_load_short_d16", 0x24),
    load_row<kFlat, Data::kB16High>("flat_load_short_d16_hi", 0x25),
    load_row<kGlobal, Data::kU8>("global_load_ubyte", 0x10),
    load_row<kGlobal, Data::kI8>("global_load_sbyte", 0x11),
    load_row<kGlobal, Data::kU16>("global_load_ushort", 0x12),
    load_row<kGlobal, Data::kI16>("global_load_sshort", 0x13),
    load_row<kGlobal, Data::kB32>("global_load_dword", 0x14),
    load_row<kGlobal, Data::kB64>("global_load_dwordx2", 0x15),
    load_row<kGlobal, Data::kB96>("global_load_dwordx3", 0x16),
    load_row<kGlobal, Data::kB128>("global_load_dwordx4", 0x17),
    store_row<kGlobal, Data::kU8>("global_store_byte", 0x18),
    store_row<kGlobal, Data::kU8High>("global_store_byte_d16_hi", 0x19),
    store_row<kGlobal, Data::kU16>("global_store_short", 0x1a),
    store_row<kGlobal, Data::kB16High>("global_store_short_d16_hi", 0x1b),
    store_row<kGlobal, Data::kB32>("global_store_dword", 0x1c),
    store_row<kGlobal, Data::kB64>("global_store_dwordx2", 0x1d),
    store_row<kGlobal, Data::kB96>("global_store_dwordx3", 0x1e),
    store_row<kGlobal, Data::kB128>("global_store_dwordx4", 0x1f),
    load_row<kGlobal, Data::kU8Low>("global_load_ubyte_d16", 0x20),
    load_row<kGlobal, Data::kU8High>("global_load_ubyte_d16_hi", 0x21),
    load_row<kGlobal, Data::kI8Low>("global_load_sbyte_d16", 0x22),
    load_row<kGlobal, Data::kI8High>("global_load_sbyte_d16_hi", 0x23),
    load_row<kGlobal, Data::kB16Low>("global_load_short_d16", 0x24),
    load_row<kGlobal, Data::kB16High>("global_load_short_d16_hi", 0x25),
    lds_row<kGlobal, Data::kU8>("global_load_lds_ubyte", 0x26, kGfx940Plus),
    lds_row<kGlobal, Data::kI8>("global_load_lds_sbyte", 0x27, kGfx940Plus),
    lds_row<kGlobal, Data::kU16>("global_load_lds_ushort", 0x28, kGfx940Plus),
    lds_row<kGlobal, Data::kI16>("global_load_lds_sshort", 0x29, kGfx940Plus),
    lds_row<kGlobal, Data::kB32>("global_load_lds_dword", 0x2a, kGfx940Plus),
    lds_row<kGlobal, Data::kB128>("global_load_lds_dwordx4", 0x7d, kGfx950Bit),
    lds_row<kGlobal, Data::kB96>("global_load_lds_dwordx3", 0x7e, kGfx950Bit),
    load_row<kScratch, Data::kU8>("scratch_load_ubyte", 0x10),
    load_row<kScratch, Data::kI8>("scratch_load_sbyte", 0x11),
    load_row<kScratch, Data::kU16>("scratch_load_ushort", 0x12),
    load_row<kScratch, Data::kI16>("scratch_load_sshort", 0x13),
    load_row<kScratch, Data::kB32>("scratch_load_dword", 0x14),
    load_row<kScratch, Data::kB64>("scratch_load_dwordx2", 0x15),
    load_row<kScratch, Data::kB96>("scratch_load_dwordx3", 0x16),
    load_row<kScratch, Data::kB128>("scratch_load_dwordx4", 0x17),
    store_row<kScratch, Data::kU8>("scratch_store_byte", 0x18),
    store_row<kScratch, Data::kU8High>("scratch_store_byte_d16_hi", 0x19),
    store_row<kScratch, Data::kU16>("scratch_store_short", 0x1a),
    store_row<kScratch, Data::kB16High>("scratch_store_short_d16_hi", 0x1b),
    store_row<kScratch, Data::kB32>("scratch_store_dword", 0x1c),
    store_row<kScratch, Data::kB64>("scratch_store_dwordx2", 0x1d),
    store_row<kScratch, Data::kB96>("scratch_store_dwordx3", 0x1e),
    store_row<kScratch, Data::kB128>("scratch_store_dwordx4", 0x1f),
    load_row<kScratch, Data::kU8Low>("scratch_load_ubyte_d16", 0x20),
    load_row<kScratch, Data::kU8High>("scratch_load_ubyte_d16_hi", 0x21),
    load_row<kScratch, Data::kI8Low>("scratch_load_sbyte_d16", 0x22),
    load_row<kScratch, Data::kI8High>("scratch_load_sbyte_d16_hi", 0x23),
    load_row<kScratch, Data::kB16Low>("scratch_load_short_d16", 0x24),
    load_row<kScratch, Data::kB16High>("scratch_load_short_d16_hi", 0x25),
    lds_row<kScratch, Data::kU8>("scratch_load_lds_ubyte", 0x26, kGfx940Plus),
    lds_row<kScratch, Data::kI8>("scratch_load_lds_sbyte", 0x27, kGfx940Plus),
    lds_row<kScratch, Data::kU16>("scratch_load_lds_ushort", 0x28, kGfx940Plus),
    lds_row<kScratch, Data::kI16>("scratch_load_lds_sshort", 0x29, kGfx940Plus),
    lds_row<kScratch, Data::kB32>("scratch_load_lds_dword", 0x2a, kGfx940Plus),
};

}  // namespace

std::span<const OpInfo> flat_ops() {
    static const std::vector<OpInfo> rows = join_rows({kRows, flat_atomic_rows()});
    return rows;
}

}  // namespace asmevo::emulator
