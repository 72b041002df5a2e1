// SMEM: scalar memory reads and writes, clocks, cache control.
#include <cstring>

#include "exec/join_rows.h"
#include "exec/scalar/scalar_rows.h"
#include "exec/scalar/smem_address.h"

namespace asmevo::emulator {
namespace {

using u32 = uint32_t;
using u64 = uint64_t;

template <unsigned dwords>
void load(Wave& wave, const Inst& inst) {
    u64 address = scalar_address(wave, inst);
    const uint8_t* from = wave.memory.access(address, dwords * 4, false, -1);
    std::memcpy(&wave.sgpr[inst.dst[0].index], from, dwords * 4);
}

template <unsigned dwords>
void store(Wave& wave, const Inst& inst) {
    u64 address = scalar_address(wave, inst);
    uint8_t* to = wave.memory.access(address, dwords * 4, true, -1);
    std::memcpy(to, &wave.sgpr[inst.src[2].index], dwords * 4);
}

template <unsigned dwords>
void scratch_load(Wave& wave, const Inst& inst) {
    const uint8_t* from = wave.memory.access(scalar_scratch_address(wave, inst), dwords * 4, false, -1);
    std::memcpy(&wave.sgpr[inst.dst[0].index], from, dwords * 4);
}

template <unsigned dwords>
void scratch_store(Wave& wave, const Inst& inst) {
    uint8_t* to = wave.memory.access(scalar_scratch_address(wave, inst), dwords * 4, true, -1);
    std::memcpy(to, &wave.sgpr[inst.src[2].index], dwords * 4);
}

// Dwords beyond the buffer read as zero and are not written.
template <unsigned dwords>
void buffer_load(Wave& wave, const Inst& inst) {
    ScalarBuffer buffer(&wave.sgpr[inst.src[0].index]);
    u64 offset = scalar_offset(wave, inst) & kDwordAligned;
    u32 result[dwords] = {};
    for (unsigned i = 0; i < dwords; ++i) {
        if (buffer.holds(offset + 4 * i, 4)) {
            u64 address = buffer.at(offset + 4 * i);
            std::memcpy(&result[i], wave.memory.access(address, 4, false, -1), 4);
        }
    }
    std::memcpy(&wave.sgpr[inst.dst[0].index], result, sizeof result);
}

template <unsigned dwords>
void buffer_store(Wave& wave, const Inst& inst) {
    ScalarBuffer buffer(&wave.sgpr[inst.src[0].index]);
    u64 offset = scalar_offset(wave, inst) & kDwordAligned;
    for (unsigned i = 0; i < dwords; ++i) {
        if (buffer.holds(offset + 4 * i, 4)) {
            u64 address = buffer.at(offset + 4 * i);
            std::memcpy(wave.memory.access(address, 4, true, -1), &wave.sgpr[inst.src[2].index + i], 4);
        }
    }
}

void nothing(Wave&, const Inst&) {}

// Clocks follow the wave's own progress, so that a run repeats exactly: 4 core clocks an instruction; the constant
// clock ticks at 100 MHz beside a core of 2.1 GHz.
void memtime(Wave& wave, const Inst& inst) { write_scalar64(wave, inst.dst[0], wave.instructions * 4); }
void memrealtime(Wave& wave, const Inst& inst) {
    write_scalar64(wave, inst.dst[0], wave.instructions * 4 / 21);
}

constexpr OpInfo row(const char* name, uint16_t opcode, Type dst, Type base, Type data, Handler run) {
    return OpInfo{name,
                  Encoding::kSmem,
                  opcode,
                  kAllTargets,
                  Category::kSmem,
                  {dst, Type::kNone},
                  {base, base == Type::kNone ? Type::kNone : Type::kB32, data, Type::kNone},
                  kNoFlags,
                  run};
}
constexpr OpInfo load_row(const char* name, uint16_t opcode, Type type, Type base, Handler run) {
    return row(name, opcode, type, base, Type::kNone, run);
}
constexpr OpInfo store_row(const char* name, uint16_t opcode, Type type, Type base, Handler run) {
    return row(name, opcode, Type::kNone, base, type, run);
}
constexpr OpInfo plain_row(const char* name, uint16_t opcode, Type dst, Handler run) {
    return row(name, opcode, dst, Type::kNone, Type::kNone, run);
}

const OpInfo kRows[] = {
    load_row("s_load_dword", 0, Type::kB32, Type::kB64, load<1>),
    load_row("s_load_dwordx2", 1, Type::kB64, Type::kB64, load<2>),
    load_row("s_load_dwordx4", 2, Type::kB128, Type::kB64, load<4>),
    load_row("s_load_dwordx8", 3, Type::kB256, Type::kB64, load<8>),
    load_row("s_load_dwordx16", 4, Type::kB512, Type::kB64, load<16>),
    load_row("s_scratch_load_dword", 5, Type::kB32, Type::kB64, scratch_load<1>),
    load_row("s_scratch_load_dwordx2", 6, Type::kB64, Type::kB64, scratch_load<2>),
    load_row("s_scratch_load_dwordx4", 7, Type::kB128, Type::kB64, scratch_load<4>),
    load_row("s_buffer_load_dword", 8, Type::kB32, Type::kB128, buffer_load<1>),
    load_row("s_buffer_load_dwordx2", 9, Type::kB64, Type::kB128, buffer_load<2>),
    load_row("s_buffer_load_dwordx4", 10, Type::kB128, Type::kB128, buffer_load<4>),
    load_row("s_buffer_load_dwordx8", 11, Type::kB256, Type::kB128, buffer_load<8>),
    load_row("s_buffer_load_dwordx16", 12, Type::kB512, Type::kB128, buffer_load<16>),
    store_row("s_store_dword", 16, Type::kB32, Type::kB64, store<1>),
    store_row("s_store_dwordx2", 17, Type::kB64, Type::kB64, store<2>),
    store_row("s_store_dwordx4", 18, Type::kB128, Type::kB64, store<4>),
    store_row("s_scratch_store_dword", 21, Type::kB32, Type::kB64, scratch_store<1>),
    store_row("s_scratch_store_dwordx2", 22, Type::kB64, Type::kB64, scratch_store<2>),
    store_row("s_scratch_store_dwordx4", 23, Type::kB128, Type::kB64, scratch_store<4>),
    store_row("s_buffer_store_dword", 24, Type::kB32, Type::kB128, buffer_store<1>),
    store_row("s_buffer_store_dwordx2", 25, Type::kB64, Type::kB128, buffer_store<2>),
    store_row("s_buffer_store_dwordx4", 26, Type::kB128, Type::kB128, buffer_store<4>),
    plain_row("s_dcache_inv", 32, Type::kNone, nothing),
    plain_row("s_dcache_wb", 33, Type::kNone, nothing),
    plain_row("s_dcache_inv_vol", 34, Type::kNone, nothing),
    plain_row("s_dcache_wb_vol", 35, Type::kNone, nothing),
    plain_row("s_memtime", 36, Type::kB64, memtime),
    plain_row("s_memrealtime", 37, Type::kB64, memrealtime),
    // Probes of address translation, and lines dropped from a cache that this device does not have.
    row("s_atc_probe", 38, Type::kNone, Type::kB64, Type::kNone, nothing),
    row("s_atc_probe_buffer", 39, Type::kNone, Type::kB128, Type::kNone, nothing),
    row("s_dcache_discard", 40, Type::kNone, Type::kB64, Type::kNone, nothing),
    row("s_dcache_discard_x2", 41, Type::kNone, Type::kB64, Type::kNone, nothing),
};

}  // namespace

std::span<const OpInfo> smem_ops() {
    static const std::vector<OpInfo> rows = join_rows({kRows, smem_atomic_ops()});
    return rows;
}

}  // namespace asmevo::emulator
