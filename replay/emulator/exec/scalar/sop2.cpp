// SOP2: scalar operations with two sources.
#include <algorithm>

#include "exec/scalar/scalar_rows.h"

namespace asmevo::emulator {
namespace {

using u32 = uint32_t;
using u64 = uint64_t;
using i32 = int32_t;
using i64 = int64_t;

template <auto f>
void run32(Wave& wave, const Inst& inst) {
    u32 a = read_scalar32(wave, inst.src[0]), b = read_scalar32(wave, inst.src[1]);
    write_scalar32(wave, inst.dst[0], f(wave, a, b));
}

template <auto f>
void run64(Wave& wave, const Inst& inst) {
    u64 a = read_scalar64(wave, inst.src[0]), b = read_scalar64(wave, inst.src[1]);
    write_scalar64(wave, inst.dst[0], f(wave, a, b));
}

// 64-bit value, 32-bit second source.
template <auto f>
void run64_32(Wave& wave, const Inst& inst) {
    u64 a = read_scalar64(wave, inst.src[0]);
    u32 b = read_scalar32(wave, inst.src[1]);
    write_scalar64(wave, inst.dst[0], f(wave, a, b));
}

template <typename T>
T with_scc(Wave& wave, T value) {
    wave.scc = value != 0;
    return value;
}

u32 add_carry(Wave& wave, u32 a, u32 b, u32 carry) {
    u64 sum = u64{a} + b + carry;
    wave.scc = sum >> 32;
    return static_cast<u32>(sum);
}

u32 sub_borrow(Wave& wave, u32 a, u32 b, u32 borrow) {
    wave.scc = u64{a} < u64{b} + borrow;
    return a - b - borrow;
}

u32 add_signed(Wave& wave, u32 a, u32 b) {
    u32 sum = a + b;
    wave.scc = ((a ^ sum) & (b ^ sum)) >> 31;
    return sum;
}

u32 sub_signed(Wave& wave, u32 a, u32 b) {
    u32 difference = a - b;
    wave.scc = ((a ^ b) & (a ^ difference)) >> 31;
    return difference;
}

template <unsigned shift>
u32 shift_add(Wave& wave, u32 a, u32 b) {
    u64 sum = (u64{a} << shift) + b;
    wave.scc = sum >> 32;
    return static_cast<u32>(sum);
}

// Bit field: offset in the low bits of the control, width in bits 22:16.
u64 extract_unsigned(u64 value, u32 offset, u32 width, u32 size) {
    if (width == 0) {
        return 0;
    }
    value >>= offset;
    return width >= size ? value : value & ((u64{1} << width) - 1);
}

u64 extract_signed(u64 value, u32 offset, u32 width, u32 size) {
    if (width == 0) {
        return 0;
    }
    // The field ends at the register's top bit at the latest.
    u32 used = std::min(width, size - offset);
    u64 field = extract_unsigned(value, offset, used, size);
    u64 sign = u64{1} << (used - 1);
    return (field ^ sign) - sign;
}

constexpr OpInfo op32(const char* name, uint16_t opcode, Handler run, u32 flags = kNoFlags) {
    return scalar_row(name, Encoding::kSop2, opcode, Type::kB32, Type::kB32, Type::kB32, flags, run);
}
constexpr OpInfo op64(const char* name, uint16_t opcode, Handler run, u32 flags = kNoFlags) {
    return scalar_row(name, Encoding::kSop2, opcode, Type::kB64, Type::kB64, Type::kB64, flags, run);
}
constexpr OpInfo op64_32(const char* name, uint16_t opcode, Handler run, u32 flags) {
    return scalar_row(name, Encoding::kSop2, opcode, Type::kB64, Type::kB64, Type::kB32, flags, run);
}

constexpr u32 kCarry = kReadsScc | kWritesScc;

const OpInfo kRows[] = {
    op32("s_add_u32", 0, run32<[](Wave& w, u32 a, u32 b) { return add_carry(w, a, b, 0); }>, kWritesScc),
    op32("s_sub_u32", 1, run32<[](Wave& w, u32 a, u32 b) { return sub_borrow(w, a, b, 0); }>, kWritesScc),
    op32("s_add_i32", 2, run32<add_signed>, kWritesScc),
    op32("s_sub_i32", 3, run32<sub_signed>, kWritesScc),
    op32("s_addc_u32", 4, run32<[](Wave& w, u32 a, u32 b) { return add_carry(w, a, b, w.scc); }>, kCarry),
    op32("s_subb_u32", 5, run32<[](Wave& w, u32 a, u32 b) { return sub_borrow(w, a, b, w.scc); }>, kCarry),
    op32("s_min_i32", 6, run32<[](Wave& w, u32 a, u32 b) {
             w.scc = static_cast<i32>(a) < static_cast<i32>(b);
             return w.scc ? a : b;
         }>, kWritesScc),
    op32("s_min_u32", 7, run32<[](Wave& w, u32 a, u32 b) {
             w.scc = a < b;
             return w.scc ? a : b;
         }>, kWritesScc),
    op32("s_max_i32", 8, run32<[](Wave& w, u32 a, u32 b) {
             w.scc = static_cast<i32>(a) >= static_cast<i32>(b);
             return w.scc ? a : b;
         }>, kWritesScc),
    op32("s_max_u32", 9, run32<[](Wave& w, u32 a, u32 b) {
             w.scc = a >= b;
             return w.scc ? a : b;
         }>, kWritesScc),
    op32("s_cselect_b32", 10, run32<[](Wave& w, u32 a, u32 b) { return w.scc ? a : b; }>, kReadsScc),
    op64("s_cselect_b64", 11, run64<[](Wave& w, u64 a, u64 b) { return w.scc ? a : b; }>, kReadsScc),
    op32("s_and_b32", 12, run32<[](Wave& w, u32 a, u32 b) { return with_scc(w, a & b); }>, kWritesScc),
    op64("s_and_b64", 13, run64<[](Wave& w, u64 a, u64 b) { return with_scc(w, a & b); }>, kWritesScc),
    op32("s_or_b32", 14, run32<[](Wave& w, u32 a, u32 b) { return with_scc(w, a | b); }>, kWritesScc),
    op64("s_or_b64", 15, run64<[](Wave& w, u64 a, u64 b) { return with_scc(w, a | b); }>, kWritesScc),
    op32("s_xor_b32", 16, run32<[](Wave& w, u32 a, u32 b) { return with_scc(w, a ^ b); }>, kWritesScc),
    op64("s_xor_b64", 17, run64<[](Wave& w, u64 a, u64 b) { return with_scc(w, a ^ b); }>, kWritesScc),
    op32("s_andn2_b32", 18, run32<[](Wave& w, u32 a, u32 b) { return with_scc(w, a & ~b); }>, kWritesScc),
    op64("s_andn2_b64", 19, run64<[](Wave& w, u64 a, u64 b) { return with_scc(w, a & ~b); }>, kWritesScc),
    op32("s_orn2_b32", 20, run32<[](Wave& w, u32 a, u32 b) { return with_scc(w, a | ~b); }>, kWritesScc),
    op64("s_orn2_b64", 21, run64<[](Wave& w, u64 a, u64 b) { return with_scc(w, a | ~b); }>, kWritesScc),
    op32("s_nand_b32", 22, run32<[](Wave& w, u32 a, u32 b) { return with_scc(w, ~(a & b)); }>, kWritesScc),
    op64("s_nand_b64", 23, run64<[](Wave& w, u64 a, u64 b) { return with_scc(w, ~(a & b)); }>, kWritesScc),
    op32("s_nor_b32", 24, run32<[](Wave& w, u32 a, u32 b) { return with_scc(w, ~(a | b)); }>, kWritesScc),
    op64("s_nor_b64", 25, run64<[](Wave& w, u64 a, u64 b) { return with_scc(w, ~(a | b)); }>, kWritesScc),
    op32("s_xnor_b32", 26, run32<[](Wave& w, u32 a, u32 b) { return with_scc(w, ~(a ^ b)); }>, kWritesScc),
    op64("s_xnor_b64", 27, run64<[](Wave& w, u64 a, u64 b) { return with_scc(w, ~(a ^ b)); }>, kWritesScc),
    op32("s_lshl_b32", 28, run32<[](Wave& w, u32 a, u32 b) { return with_scc(w, a << (b & 31)); }>, kWritesScc),
    op64_32("s_lshl_b64", 29, run64_32<[](Wave& w, u64 a, u32 b) { return with_scc(w, a << (b & 63)); }>, kWritesScc),
    op32("s_lshr_b32", 30, run32<[](Wave& w, u32 a, u32 b) { return with_scc(w, a >> (b & 31)); }>, kWritesScc),
    op64_32("s_lshr_b64", 31, run64_32<[](Wave& w, u64 a, u32 b) { return with_scc(w, a >> (b & 63)); }>, kWritesScc),
    op32("s_ashr_i32", 32, run32<[](Wave& w, u32 a, u32 b) {
             return with_scc(w, static_cast<u32>(static_cast<i32>(a) >> (b & 31)));
         }>, kWritesScc),
    op64_32("s_ashr_i64", 33, run64_32<[](Wave& w, u64 a, u32 b) {
                return with_scc(w, static_cast<u64>(static_cast<i64>(a) >> (b & 63)));
            }>, kWritesScc),
    op32("s_bfm_b32", 34, run32<[](Wave&, u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); }>),
    scalar_row("s_bfm_b64", Encoding::kSop2, 35, Type::kB64, Type::kB32, Type::kB32, kNoFlags,
               [](Wave& wave, const Inst& inst) {
                   u32 width = read_scalar32(wave, inst.src[0]), at = read_scalar32(wave, inst.src[1]);
                   write_scalar64(wave, inst.dst[0], ((u64{1} << (width & 63)) - 1) << (at & 63));
               }),
    op32("s_mul_i32", 36, run32<[](Wave&, u32 a, u32 b) { return a * b; }>),
    op32("s_bfe_u32", 37, run32<[](Wave& w, u32 a, u32 b) {
             return with_scc(w, static_cast<u32>(extract_unsigned(a, b & 31, b >> 16 & 127, 32)));
         }>, kWritesScc),
    op32("s_bfe_i32", 38, run32<[](Wave& w, u32 a, u32 b) {
             return with_scc(w, static_cast<u32>(extract_signed(a, b & 31, b >> 16 & 127, 32)));
         }>, kWritesScc),
    op64_32("s_bfe_u64", 39, run64_32<[](Wave& w, u64 a, u32 b) {
                return with_scc(w, extract_unsigned(a, b & 63, b >> 16 & 127, 64));
            }>, kWritesScc),
    op64_32("s_bfe_i64", 40, run64_32<[](Wave& w, u64 a, u32 b) {
                return with_scc(w, extract_signed(a, b & 63, b >> 16 & 127, 64));
            }>, kWritesScc),
    scalar_row("s_cbranch_g_fork", Encoding::kSop2, 41, Type::kNone, Type::kB64, Type::kB64,
               kReadsMode | kWritesMode | kReadsExec | kWritesExec,
               [](Wave& wave, const Inst& inst) {
                   fork_lanes(wave, read_scalar64(wave, inst.src[0]), read_scalar64(wave, inst.src[1]));
               },
               Category::kBranch),
    op32("s_absdiff_i32", 42, run32<[](Wave& w, u32 a, u32 b) {
             u32 difference = a - b;
             return with_scc(w, static_cast<i32>(difference) < 0 ? 0 - difference : difference);
         }>, kWritesScc),
    missing(scalar_row("s_rfe_restore_b64", Encoding::kSop2, 43, Type::kNone, Type::kB64, Type::kB32, kTerminator,
                       nullptr, Category::kBranch),
            kTrapOnly),
    op32("s_mul_hi_u32", 44, run32<[](Wave&, u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 32); }>),
    op32("s_mul_hi_i32", 45, run32<[](Wave&, u32 a, u32 b) {
             return static_cast<u32>(i64{static_cast<i32>(a)} * static_cast<i32>(b) >> 32);
         }>),
    op32("s_lshl1_add_u32", 46, run32<shift_add<1>>, kWritesScc),
    op32("s_lshl2_add_u32", 47, run32<shift_add<2>>, kWritesScc),
    op32("s_lshl3_add_u32", 48, run32<shift_add<3>>, kWritesScc),
    op32("s_lshl4_add_u32", 49, run32<shift_add<4>>, kWritesScc),
    op32("s_pack_ll_b32_b16", 50, run32<[](Wave&, u32 a, u32 b) { return (a & 0xffff) | b << 16; }>),
    op32("s_pack_lh_b32_b16", 51, run32<[](Wave&, u32 a, u32 b) { return (a & 0xffff) | (b & 0xffff0000); }>),
    op32("s_pack_hh_b32_b16", 52, run32<[](Wave&, u32 a, u32 b) { return (a >> 16) | (b & 0xffff0000); }>),
};

}  // namespace

std::span<const OpInfo> sop2_ops() { return kRows; }

}  // namespace asmevo::emulator
