// SOP1: scalar operations with one source.
#include <bit>

#include "exec/fault.h"
#include "exec/scalar/scalar_rows.h"

namespace asmevo::emulator {
namespace {

using u32 = uint32_t;
using u64 = uint64_t;

constexpr u64 kQuadOnes = 0x1111111111111111;

template <auto f>
void run32(Wave& wave, const Inst& inst) {
    write_scalar32(wave, inst.dst[0], f(wave, read_scalar32(wave, inst.src[0])));
}

template <auto f>
void run64(Wave& wave, const Inst& inst) {
    write_scalar64(wave, inst.dst[0], f(wave, read_scalar64(wave, inst.src[0])));
}

// 64-bit source, 32-bit result.
template <auto f>
void run32_64(Wave& wave, const Inst& inst) {
    write_scalar32(wave, inst.dst[0], f(wave, read_scalar64(wave, inst.src[0])));
}

template <typename T>
T with_scc(Wave& wave, T value) {
    wave.scc = value != 0;
    return value;
}

u64 reverse_bits(u64 value) {
    u64 result = 0;
    for (int i = 0; i < 64; ++i, value >>= 1) {
        result = result << 1 | (value & 1);
    }
    return result;
}

/// Bit q: whether any of the four bits of quad q is set.
u64 any_in_quad(u64 value) {
    value |= value >> 1;
    value |= value >> 2;
    return value & kQuadOnes;
}

u64 quad_mask(u64 value) {
    u64 quads = any_in_quad(value), result = 0;
    for (int i = 0; i < 16; ++i) {
        result |= (quads >> (4 * i) & 1) << i;
    }
    return result;
}

template <typename T>
u32 first_set(T value) {
    return value == 0 ? ~0u : static_cast<u32>(std::countr_zero(value));
}

template <typename T>
u32 leading_zeros(T value) {
    return value == 0 ? ~0u : static_cast<u32>(std::countl_zero(value));
}

/// Leading bits equal to the sign bit; -1 when all are.
template <typename T>
u32 leading_sign_bits(T value) {
    bool is_negative = value >> (sizeof(T) * 8 - 1) & 1;
    return leading_zeros(is_negative ? static_cast<T>(~value) : value);
}

template <auto f>
void save_exec(Wave& wave, const Inst& inst) {
    u64 source = read_scalar64(wave, inst.src[0]), exec = wave.exec();
    write_scalar64(wave, inst.dst[0], exec);
    wave.set_exec(with_scc(wave, f(source, exec)));
}

template <auto f>
void write_exec(Wave& wave, const Inst& inst) {
    u64 exec = with_scc(wave, f(read_scalar64(wave, inst.src[0]), wave.exec()));
    wave.set_exec(exec);
    write_scalar64(wave, inst.dst[0], exec);
}

template <bool value>
void bit_set32(Wave& wave, const Inst& inst) {
    u32 bit = 1u << (read_scalar32(wave, inst.src[0]) & 31);
    u32 old = read_scalar32(wave, inst.dst[0]);
    write_scalar32(wave, inst.dst[0], value ? old | bit : old & ~bit);
}

template <bool value>
void bit_set64(Wave& wave, const Inst& inst) {
    u64 bit = u64{1} << (read_scalar32(wave, inst.src[0]) & 63);
    u64 old = read_scalar64(wave, inst.dst[0]);
    write_scalar64(wave, inst.dst[0], value ? old | bit : old & ~bit);
}

void bit_replicate(Wave& wave, const Inst& inst) {
    u32 source = read_scalar32(wave, inst.src[0]);
    u64 result = 0;
    for (int i = 0; i < 32; ++i) {
        result |= (source >> i & 1) * (u64{3} << (2 * i));
    }
    write_scalar64(wave, inst.dst[0], result);
}

/// `operand` moved by M0 registers (s_movrel*).
Operand relative(const Wave& wave, Operand operand) {
    if (!operand.is_sgpr() || wave.m0() >= 128 || operand.index + wave.m0() + operand.dwords > 102) {
        throw Fault("relative scalar register number is out of range (M0 = " +
                    std::to_string(wave.m0()) + ")");
    }
    operand.index = static_cast<uint16_t>(operand.index + wave.m0());
    return operand;
}

void movrels32(Wave& wave, const Inst& inst) {
    write_scalar32(wave, inst.dst[0], read_scalar32(wave, relative(wave, inst.src[0])));
}
void movrels64(Wave& wave, const Inst& inst) {
    write_scalar64(wave, inst.dst[0], read_scalar64(wave, relative(wave, inst.src[0])));
}
void movreld32(Wave& wave, const Inst& inst) {
    write_scalar32(wave, relative(wave, inst.dst[0]), read_scalar32(wave, inst.src[0]));
}
void movreld64(Wave& wave, const Inst& inst) {
    write_scalar64(wave, relative(wave, inst.dst[0]), read_scalar64(wave, inst.src[0]));
}

void cmov32(Wave& wave, const Inst& inst) {
    if (wave.scc) {
        write_scalar32(wave, inst.dst[0], read_scalar32(wave, inst.src[0]));
    }
}
void cmov64(Wave& wave, const Inst& inst) {
    if (wave.scc) {
        write_scalar64(wave, inst.dst[0], read_scalar64(wave, inst.src[0]));
    }
}

void getpc(Wave& wave, const Inst& inst) { write_scalar64(wave, inst.dst[0], wave.pc); }
void setpc(Wave& wave, const Inst& inst) { wave.pc = read_scalar64(wave, inst.src[0]); }
void swappc(Wave& wave, const Inst& inst) {
    u64 target = read_scalar64(wave, inst.src[0]);
    write_scalar64(wave, inst.dst[0], wave.pc);
    wave.pc = target;
}

/// The first time at a join: on with the lanes that wait. The second time: further.
void join(Wave& wave, const Inst& inst) {
    const u32 depth = fork_depth(wave);
    if (depth == read_scalar32(wave, inst.src[0])) {
        return;
    }
    if (depth == 0) {
        throw Fault("s_cbranch_join without a fork");
    }
    set_fork_depth(wave, depth - 1);
    const auto saved = static_cast<uint16_t>(4 * (depth - 1));
    wave.set_exec(wave.read64(saved));
    wave.pc = wave.read64(static_cast<uint16_t>(saved + 2));
}

void set_gpr_idx_idx(Wave& wave, const Inst& inst) {
    wave.sgpr[kM0Code] = (wave.m0() & ~0xffu) | (read_scalar32(wave, inst.src[0]) & 0xff);
}

constexpr OpInfo op32(const char* name, uint16_t opcode, Handler run, u32 flags = kNoFlags) {
    return scalar_row(name, Encoding::kSop1, opcode, Type::kB32, Type::kB32, Type::kNone, flags, run);
}
constexpr OpInfo op64(const char* name, uint16_t opcode, Handler run, u32 flags = kNoFlags) {
    return scalar_row(name, Encoding::kSop1, opcode, Type::kB64, Type::kB64, Type::kNone, flags, run);
}
constexpr OpInfo op32_64(const char* name, uint16_t opcode, Handler run, u32 flags = kNoFlags) {
    return scalar_row(name, Encoding::kSop1, opcode, Type::kB32, Type::kB64, Type::kNone, flags, run);
}
constexpr OpInfo op64_32(const char* name, uint16_t opcode, Handler run, u32 flags = kNoFlags) {
    return scalar_row(name, Encoding::kSop1, opcode, Type::kB64, Type::kB32, Type::kNone, flags, run);
}
constexpr OpInfo jump(const char* name, uint16_t opcode, Type dst, Type src, Handler run, u32 flags) {
    return scalar_row(name, Encoding::kSop1, opcode, dst, src, Type::kNone, flags, run,
                      Category::kBranch);
}

constexpr u32 kExecFlags = kReadsExec | kWritesExec | kWritesScc;

const OpInfo kRows[] = {
    op32("s_mov_b32", 0, run32<[](Wave&, u32 a) { return a; }>),
    op64("s_mov_b64", 1, run64<[](Wave&, u64 a) { return a; }>),
    op32("s_cmov_b32", 2, cmov32, kReadsScc | kDstIsRead),
    op64("s_cmov_b64", 3, cmov64, kReadsScc | kDstIsRead),
    op32("s_not_b32", 4, run32<[](Wave& w, u32 a) { return with_scc(w, ~a); }>, kWritesScc),
    op64("s_not_b64", 5, run64<[](Wave& w, u64 a) { return with_scc(w, ~a); }>, kWritesScc),
    op32("s_wqm_b32", 6, run32<[](Wave& w, u32 a) {
             return with_scc(w, static_cast<u32>(any_in_quad(a) * 15));
         }>, kWritesScc),
    op64("s_wqm_b64", 7, run64<[](Wave& w, u64 a) { return with_scc(w, any_in_quad(a) * 15); }>, kWritesScc),
    op32("s_brev_b32", 8, run32<[](Wave&, u32 a) { return static_cast<u32>(reverse_bits(a) >> 32); }>),
    op64("s_brev_b64", 9, run64<[](Wave&, u64 a) { return reverse_bits(a); }>),
    op32("s_bcnt0_i32_b32", 10, run32<[](Wave& w, u32 a) {
             return with_scc(w, static_cast<u32>(std::popcount(~a)));
         }>, kWritesScc),
    op32_64("s_bcnt0_i32_b64", 11, run32_64<[](Wave& w, u64 a) {
                return with_scc(w, static_cast<u32>(std::popcount(~a)));
            }>, kWritesScc),
    op32("s_bcnt1_i32_b32", 12, run32<[](Wave& w, u32 a) {
             return with_scc(w, static_cast<u32>(std::popcount(a)));
         }>, kWritesScc),
    op32_64("s_bcnt1_i32_b64", 13, run32_64<[](Wave& w, u64 a) {
                return with_scc(w, static_cast<u32>(std::popcount(a)));
            }>, kWritesScc),
    op32("s_ff0_i32_b32", 14, run32<[](Wave&, u32 a) { return first_set(~a); }>),
    op32_64("s_ff0_i32_b64", 15, run32_64<[](Wave&, u64 a) { return first_set(~a); }>),
    op32("s_ff1_i32_b32", 16, run32<[](Wave&, u32 a) { return first_set(a); }>),
    op32_64("s_ff1_i32_b64", 17, run32_64<[](Wave&, u64 a) { return first_set(a); }>),
    op32("s_flbit_i32_b32", 18, run32<[](Wave&, u32 a) { return leading_zeros(a); }>),
    op32_64("s_flbit_i32_b64", 19, run32_64<[](Wave&, u64 a) { return leading_zeros(a); }>),
    op32("s_flbit_i32", 20, run32<[](Wave&, u32 a) { return leading_sign_bits(a); }>),
    op32_64("s_flbit_i32_i64", 21, run32_64<[](Wave&, u64 a) { return leading_sign_bits(a); }>),
    op32("s_sext_i32_i8", 22, run32<[](Wave&, u32 a) { return static_cast<u32>(static_cast<int8_t>(a)); }>),
    op32("s_sext_i32_i16", 23, run32<[](Wave&, u32 a) { return static_cast<u32>(static_cast<int16_t>(a)); }>),
    op32("s_bitset0_b32", 24, bit_set32<false>, kDstIsRead),
    op64_32("s_bitset0_b64", 25, bit_set64<false>, kDstIsRead),
    op32("s_bitset1_b32", 26, bit_set32<true>, kDstIsRead),
    op64_32("s_bitset1_b64", 27, bit_set64<true>, kDstIsRead),
    scalar_row("s_getpc_b64", Encoding::kSop1, 28, Type::kB64, Type::kNone, Type::kNone, kNoFlags, getpc),
    jump("s_setpc_b64", 29, Type::kNone, Type::kB64, setpc, kTerminator),
    jump("s_swappc_b64", 30, Type::kB64, Type::kB64, swappc, kTerminator),
    missing(jump("s_rfe_b64", 31, Type::kNone, Type::kB64, nullptr, kTerminator), kTrapOnly),
    op64("s_and_saveexec_b64", 32, save_exec<[](u64 s, u64 e) { return s & e; }>, kExecFlags),
    op64("s_or_saveexec_b64", 33, save_exec<[](u64 s, u64 e) { return s | e; }>, kExecFlags),
    op64("s_xor_saveexec_b64", 34, save_exec<[](u64 s, u64 e) { return s ^ e; }>, kExecFlags),
    op64("s_andn2_saveexec_b64", 35, save_exec<[](u64 s, u64 e) { return s & ~e; }>, kExecFlags),
    op64("s_orn2_saveexec_b64", 36, save_exec<[](u64 s, u64 e) { return s | ~e; }>, kExecFlags),
    op64("s_nand_saveexec_b64", 37, save_exec<[](u64 s, u64 e) { return ~(s & e); }>, kExecFlags),
    op64("s_nor_saveexec_b64", 38, save_exec<[](u64 s, u64 e) { return ~(s | e); }>, kExecFlags),
    op64("s_xnor_saveexec_b64", 39, save_exec<[](u64 s, u64 e) { return ~(s ^ e); }>, kExecFlags),
    op32("s_quadmask_b32", 40, run32<[](Wave& w, u32 a) {
             return with_scc(w, static_cast<u32>(quad_mask(a)));
         }>, kWritesScc),
    op64("s_quadmask_b64", 41, run64<[](Wave& w, u64 a) { return with_scc(w, quad_mask(a)); }>, kWritesScc),
    op32("s_movrels_b32", 42, movrels32, kReadsM0),
    op64("s_movrels_b64", 43, movrels64, kReadsM0),
    op32("s_movreld_b32", 44, movreld32, kReadsM0),
    op64("s_movreld_b64", 45, movreld64, kReadsM0),
    scalar_row("s_cbranch_join", Encoding::kSop1, 46, Type::kNone, Type::kB32, Type::kNone,
               kReadsMode | kWritesMode | kWritesExec, join, Category::kBranch),
    op32("s_abs_i32", 48, run32<[](Wave& w, u32 a) {
             return with_scc(w, static_cast<int32_t>(a) < 0 ? 0 - a : a);
         }>, kWritesScc),
    scalar_row("s_set_gpr_idx_idx", Encoding::kSop1, 50, Type::kNone, Type::kB32, Type::kNone,
               kReadsM0 | kWritesM0, set_gpr_idx_idx),
    op64("s_andn1_saveexec_b64", 51, save_exec<[](u64 s, u64 e) { return ~s & e; }>, kExecFlags),
    op64("s_orn1_saveexec_b64", 52, save_exec<[](u64 s, u64 e) { return ~s | e; }>, kExecFlags),
    op64("s_andn1_wrexec_b64", 53, write_exec<[](u64 s, u64 e) { return ~s & e; }>, kExecFlags),
    op64("s_andn2_wrexec_b64", 54, write_exec<[](u64 s, u64 e) { return s & ~e; }>, kExecFlags),
    op64_32("s_bitreplicate_b64_b32", 55, bit_replicate),
};

}  // namespace

std::span<const OpInfo> sop1_ops() { return kRows; }

}  // namespace asmevo::emulator
