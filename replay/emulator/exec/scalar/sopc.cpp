// SOPC: scalar comparisons, and the start of VGPR indexing.
#include "exec/scalar/scalar_rows.h"

namespace asmevo::emulator {
namespace {

using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;

template <auto f>
void compare_signed(Wave& wave, const Inst& inst) {
    wave.scc = f(static_cast<i32>(read_scalar32(wave, inst.src[0])),
                 static_cast<i32>(read_scalar32(wave, inst.src[1])));
}

template <auto f>
void compare(Wave& wave, const Inst& inst) {
    wave.scc = f(read_scalar32(wave, inst.src[0]), read_scalar32(wave, inst.src[1]));
}

template <auto f>
void compare64(Wave& wave, const Inst& inst) {
    wave.scc = f(read_scalar64(wave, inst.src[0]), read_scalar64(wave, inst.src[1]));
}

template <bool wanted>
void bit_compare64(Wave& wave, const Inst& inst) {
    u32 at = read_scalar32(wave, inst.src[1]) & 63;
    wave.scc = (read_scalar64(wave, inst.src[0]) >> at & 1) == wanted;
}

// s_set_gpr_idx_on S0, modes: the modes stand in the field of the second source.
void set_gpr_idx_on(Wave& wave, const Inst& inst) {
    u32 index = read_scalar32(wave, inst.src[0]) & 0xff;
    u32 modes = static_cast<u32>(inst.simm) & 0xf;
    wave.sgpr[kM0Code] = (wave.m0() & ~0xf0ffu) | index | modes << 12;
    wave.gpr_idx_on = true;
}

// MODE.VSKIP: while it is set, vector and memory instructions are passed over (workgroup_run.cpp).
void set_vskip(Wave& wave, const Inst& inst) {
    u32 bit = read_scalar32(wave, inst.src[0]) >> (read_scalar32(wave, inst.src[1]) & 31) & 1;
    wave.mode = (wave.mode & ~kModeVskip) | (bit ? kModeVskip : 0);
}

constexpr OpInfo op32(const char* name, uint16_t opcode, Handler run) {
    return scalar_row(name, Encoding::kSopc, opcode, Type::kNone, Type::kB32, Type::kB32, kWritesScc,
                      run);
}
constexpr OpInfo op64(const char* name, uint16_t opcode, Type src1, Handler run) {
    return scalar_row(name, Encoding::kSopc, opcode, Type::kNone, Type::kB64, src1, kWritesScc, run);
}

const OpInfo kRows[] = {
    op32("s_cmp_eq_i32", 0, compare_signed<[](i32 a, i32 b) { return a == b; }>),
    op32("s_cmp_lg_i32", 1, compare_signed<[](i32 a, i32 b) { return a != b; }>),
    op32("s_cmp_gt_i32", 2, compare_signed<[](i32 a, i32 b) { return (a > b); }>),
    op32("s_cmp_ge_i32", 3, compare_signed<[](i32 a, i32 b) { return (a >= b); }>),
    op32("s_cmp_lt_i32", 4, compare_signed<[](i32 a, i32 b) { return a < b; }>),
    op32("s_cmp_le_i32", 5, compare_signed<[](i32 a, i32 b) { return a <= b; }>),
    op32("s_cmp_eq_u32", 6, compare<[](u32 a, u32 b) { return a == b; }>),
    op32("s_cmp_lg_u32", 7, compare<[](u32 a, u32 b) { return a != b; }>),
    op32("s_cmp_gt_u32", 8, compare<[](u32 a, u32 b) { return (a > b); }>),
    op32("s_cmp_ge_u32", 9, compare<[](u32 a, u32 b) { return (a >= b); }>),
    op32("s_cmp_lt_u32", 10, compare<[](u32 a, u32 b) { return a < b; }>),
    op32("s_cmp_le_u32", 11, compare<[](u32 a, u32 b) { return a <= b; }>),
    op32("s_bitcmp0_b32", 12, compare<[](u32 a, u32 b) { return (a >> (b & 31) & 1) == 0; }>),
    op32("s_bitcmp1_b32", 13, compare<[](u32 a, u32 b) { return (a >> (b & 31) & 1) == 1; }>),
    op64("s_bitcmp0_b64", 14, Type::kB32, bit_compare64<false>),
    op64("s_bitcmp1_b64", 15, Type::kB32, bit_compare64<true>),
    scalar_row("s_setvskip", Encoding::kSopc, 16, Type::kNone, Type::kB32, Type::kB32, kWritesMode,
               set_vskip),
    scalar_row("s_set_gpr_idx_on", Encoding::kSopc, 17, Type::kNone, Type::kB32, Type::kNone,
               kReadsM0 | kWritesM0 | kWritesMode, set_gpr_idx_on),
    op64("s_cmp_eq_u64", 18, Type::kB64, compare64<[](u64 a, u64 b) { return a == b; }>),
    op64("s_cmp_lg_u64", 19, Type::kB64, compare64<[](u64 a, u64 b) { return a != b; }>),
};

}  // namespace

std::span<const OpInfo> sopc_ops() { return kRows; }

}  // namespace asmevo::emulator
