// DS loads and stores (CDNA3 ISA chapter 11). Atomics stand in ds_atomics.cpp, lane permutes and
// transposing reads in ds_lanes.cpp.
#include "exec/join_rows.h"
#include "exec/memory_ops/all_lanes.h"
#include "exec/memory_ops/ds_rows.h"
#include "exec/memory_ops/lds.h"
#include "isa/tables.h"

namespace asmevo::emulator {
namespace {

/// Address of one access of read2/write2: its 8-bit offset counts elements, or 64 elements in the
/// st64 forms.
template <uint32_t Scale>
uint32_t pair_address(const Wave& wave, const Inst& inst, int which, int lane) {
    const uint32_t offset = static_cast<uint32_t>(inst.offset) >> (8 * which) & 0xff;
    return wave.lanes(inst.src[0].index)[lane] + offset * Scale;
}

/// Host addresses of all lanes' accesses at `offset`. False when a lane is inactive, or when the workgroup's allocation does
/// not hold them all.
bool find_addresses(Wave& wave, const Inst& inst, uint32_t offset, uint32_t size, uint64_t out[kLanes]) {
    const uint32_t* address = wave.lanes(inst.src[0].index);
    uint32_t highest = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        highest = address[lane] > highest ? address[lane] : highest;
    }
    if (wave.exec() != ~0ull || uint64_t{highest} + offset + size > wave.group->lds.size()) {
        return false;
    }
    const uint64_t base = reinterpret_cast<uint64_t>(wave.group->lds.data()) + offset;
    for (int lane = 0; lane < kLanes; ++lane) {
        out[lane] = base + address[lane];
    }
    return true;
}

template <Data D>
void read(Wave& wave, const Inst& inst) {
    refuse_gds(inst);
    constexpr uint32_t size = size_bytes(D);
    const uint16_t target = inst.dst[0].index;
    uint64_t addresses[kLanes];
    if (find_addresses(wave, inst, static_cast<uint32_t>(inst.offset), size, addresses)) {
        load_all_lanes<D>(wave, target, addresses);
        return;
    }
    for_each_lane(wave.exec(), [&](int lane) {
        load_lane<D>(wave, target, lane, lds_access(wave, ds_address(wave, inst, lane), size, lane));
    });
}

template <Data D>
void write(Wave& wave, const Inst& inst) {
    refuse_gds(inst);
    constexpr uint32_t size = size_bytes(D);
    const uint16_t source = inst.src[1].index;
    uint64_t addresses[kLanes];
    if (find_addresses(wave, inst, static_cast<uint32_t>(inst.offset), size, addresses)) {
        store_all_lanes<D>(wave, source, addresses);
        return;
    }
    for_each_lane(wave.exec(), [&](int lane) {
        store_lane<D>(wave, source, lane, lds_access(wave, ds_address(wave, inst, lane), size, lane));
    });
}

template <Data D, uint32_t Scale>
void read2(Wave& wave, const Inst& inst) {
    refuse_gds(inst);
    constexpr uint32_t size = size_bytes(D);
    const uint16_t target = inst.dst[0].index;
    const uint32_t first_offset = (static_cast<uint32_t>(inst.offset) & 0xff) * Scale;
    const uint32_t second_offset = (static_cast<uint32_t>(inst.offset) >> 8 & 0xff) * Scale;
    uint64_t first_address[kLanes], second_address[kLanes];
    if (find_addresses(wave, inst, first_offset, size, first_address) &&
        find_addresses(wave, inst, second_offset, size, second_address)) {
        load_all_lanes<D>(wave, target, first_address);
        load_all_lanes<D>(wave, static_cast<uint16_t>(target + size / 4), second_address);
        return;
    }
    for_each_lane(wave.exec(), [&](int lane) {
        const uint8_t* first =
            lds_access(wave, pair_address<Scale>(wave, inst, 0, lane), size, lane);
        const uint8_t* second =
            lds_access(wave, pair_address<Scale>(wave, inst, 1, lane), size, lane);
        load_lane<D>(wave, target, lane, first);
        load_lane<D>(wave, static_cast<uint16_t>(target + size / 4), lane, second);
    });
}

template <Data D, uint32_t Scale>
void write2(Wave& wave, const Inst& inst) {
    refuse_gds(inst);
    constexpr uint32_t size = size_bytes(D);
    for_each_lane(wave.exec(), [&](int lane) {
        for (int which = 0; which < 2; ++which) {
            uint8_t* target =
                lds_access(wave, pair_address<Scale>(wave, inst, which, lane), size, lane);
            store_lane<D>(wave, inst.src[1 + which].index, lane, target);
        }
    });
}

/// LDS address = M0 + offset + lane * 4 (ISA, DS_READ_ADDTID_B32).
uint8_t* addtid_target(Wave& wave, const Inst& inst, int lane) {
    const uint64_t address =
        lds_base_from_m0(wave, inst) + static_cast<uint64_t>(inst.offset) + 4u * lane;
    return lds_access(wave, address, 4, lane);
}

void read_addtid(Wave& wave, const Inst& inst) {
    refuse_gds(inst);
    for_each_lane(wave.exec(), [&](int lane) {
        load_lane<Data::kB32>(wave, inst.dst[0].index, lane, addtid_target(wave, inst, lane));
    });
}

void write_addtid(Wave& wave, const Inst& inst) {
    refuse_gds(inst);
    for_each_lane(wave.exec(), [&](int lane) {
        store_lane<Data::kB32>(wave, inst.src[1].index, lane, addtid_target(wave, inst, lane));
    });
}

template <Data D>
constexpr OpInfo read_row(const char* name, uint16_t opcode) {
    return ds_row(name, opcode, kAllTargets, {.loaded = register_type(D)},
                  kLds | (is_half(D) ? kDstIsRead : kNoFlags), read<D>);
}

template <Data D>
constexpr OpInfo write_row(const char* name, uint16_t opcode) {
    return ds_row(name, opcode, kAllTargets, {.data0 = register_type(D)}, kLds, write<D>);
}

constexpr Type pair_of(Data data) {
    return data == Data::kB64 ? Type::kB128 : Type::kB64;
}

template <Data D, uint32_t Stride>
constexpr OpInfo read2_row(const char* name, uint16_t opcode) {
    return ds_row(name, opcode, kAllTargets, {.loaded = pair_of(D)}, kLds,
                  read2<D, Stride * size_bytes(D)>);
}

template <Data D, uint32_t Stride>
constexpr OpInfo write2_row(const char* name, uint16_t opcode) {
    return ds_row(name, opcode, kAllTargets, {.data0 = register_type(D), .data1 = register_type(D)},
                  kLds, write2<D, Stride * size_bytes(D)>);
}

constexpr OpInfo kRows[] = {
    write_row<Data::kB32>("ds_write_b32", 0x0d),
    write2_row<Data::kB32, 1>("ds_write2_b32", 0x0e),
    write2_row<Data::kB32, 64>("ds_write2st64_b32", 0x0f),
    ds_row("ds_nop", 0x14, kAllTargets, {.address = Type::kNone}, kNoFlags, [](Wave&, const Inst&) {}),
    ds_row("ds_write_addtid_b32", 0x1d, kAllTargets, {.address = Type::kNone, .data0 = Type::kB32},
           kLds | kReadsM0, write_addtid),
    write_row<Data::kU8>("ds_write_b8", 0x1e),
    write_row<Data::kU16>("ds_write_b16", 0x1f),
    read_row<Data::kB32>("ds_read_b32", 0x36),
    read2_row<Data::kB32, 1>("ds_read2_b32", 0x37),
    read2_row<Data::kB32, 64>("ds_read2st64_b32", 0x38),
    read_row<Data::kI8>("ds_read_i8", 0x39),
    read_row<Data::kU8>("ds_read_u8", 0x3a),
    read_row<Data::kI16>("ds_read_i16", 0x3b),
    read_row<Data::kU16>("ds_read_u16", 0x3c),
    write_row<Data::kB64>("ds_write_b64", 0x4d),
    write2_row<Data::kB64, 1>("ds_write2_b64", 0x4e),
    write2_row<Data::kB64, 64>("ds_write2st64_b64", 0x4f),
    write_row<Data::kU8High>("ds_write_b8_d16_hi", 0x54),
    write_row<Data::kB16High>("ds_write_b16_d16_hi", 0x55),
    read_row<Data::kU8Low>("ds_read_u8_d16", 0x56),
    read_row<Data::kU8High>("ds_read_u8_d16_hi", 0x57),
    read_row<Data::kI8Low>("ds_read_i8_d16", 0x58),
    read_row<Data::kI8High>("ds_read_i8_d16_hi", 0x59),
    read_row<Data::kB16Low>("ds_read_u16_d16", 0x5a),
    read_row<Data::kB16High>("ds_read_u16_d16_hi", 0x5b),
    read_row<Data::kB64>("ds_read_b64", 0x76),
    read2_row<Data::kB64, 1>("ds_read2_b64", 0x77),
    read2_row<Data::kB64, 64>("ds_read2st64_b64", 0x78),
    ds_row("ds_read_addtid_b32", 0xb6, kAllTargets, {.loaded = Type::kB32, .address = Type::kNone},
           kLds | kReadsM0, read_addtid),
    write_row<Data::kB96>("ds_write_b96", 0xde),
    write_row<Data::kB128>("ds_write_b128", 0xdf),
    read_row<Data::kB96>("ds_read_b96", 0xfe),
    read_row<Data::kB128>("ds_read_b128", 0xff),
};

}  // namespace

std::span<const OpInfo> ds_ops() {
    static const std::vector<OpInfo> rows = join_rows({kRows, ds_atomic_rows(), ds_lane_rows()});
    return rows;
}

}  // namespace asmevo::emulator
