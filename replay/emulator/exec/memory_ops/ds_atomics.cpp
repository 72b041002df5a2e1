// DS atomics (CDNA3 ISA chapter 11 and the DS opcode list). A workgroup runs on one host thread, so
// no host atomics are needed here.
#include "exec/memory_ops/atomics.h"
#include "exec/memory_ops/data.h"
#include "exec/memory_ops/ds_rows.h"
#include "exec/memory_ops/lds.h"

namespace asmevo::emulator {
namespace {

template <typename T>
T read_register(const Wave& wave, uint16_t index, int lane) {
    if constexpr (sizeof(T) == 4) {
        return wave.lanes(index)[lane];
    } else {
        return static_cast<T>(wave.lanes(static_cast<uint16_t>(index + 1))[lane]) << 32 |
               wave.lanes(index)[lane];
    }
}

template <typename T>
void write_register(Wave& wave, uint16_t index, int lane, T value) {
    wave.lanes(index)[lane] = static_cast<uint32_t>(value);
    if constexpr (sizeof(T) == 8) {
        wave.lanes(static_cast<uint16_t>(index + 1))[lane] = static_cast<uint32_t>(value >> 32);
    }
}

template <typename T>
uint8_t* aligned_access(Wave& wave, uint64_t address, int lane) {
    require_aligned("LDS", address, sizeof(T), lane);
    return lds_access(wave, address, sizeof(T), lane);
}

/// MODE.denorm: bits 5:4 for f32, 7:6 for f16; 3 keeps denormals both ways, and anything less
/// flushes them here.
AtomicMode atomic_mode(const Wave& wave) {
    return {.flush_f32 = (wave.mode >> 4 & 3) != 3, .flush_f16 = (wave.mode >> 6 & 3) != 3};
}

template <AtomicOp Op, typename T, bool Returns>
void atomic(Wave& wave, const Inst& inst) {
    refuse_gds(inst);
    const AtomicMode mode = atomic_mode(wave);
    for_each_lane(wave.exec(), [&](int lane) {
        const uint32_t address = ds_address(wave, inst, lane);
        uint8_t* target = aligned_access<T>(wave, address, lane);
        const T first = read_register<T>(wave, inst.src[1].index, lane);
        T second = 0;
        if constexpr (takes_two_operands(Op)) {
            second = read_register<T>(wave, inst.src[2].index, lane);
        }
        const T old = read_bytes<T>(target);
        const T updated = apply<Op, T>(old, first, second, mode);
        std::memcpy(target, &updated, sizeof(T));
        if constexpr (Returns) {
            write_register<T>(wave, inst.dst[0].index, lane, old);
        }
    });
}

/// ds_wrxchg2: two exchanges at element offsets, as read2/write2 address them.
template <typename T, uint32_t Scale>
void exchange2(Wave& wave, const Inst& inst) {
    refuse_gds(inst);
    for_each_lane(wave.exec(), [&](int lane) {
        const uint32_t base = wave.lanes(inst.src[0].index)[lane];
        T old[2];
        for (unsigned which = 0; which < 2; ++which) {
            const uint32_t offset =
                (static_cast<uint32_t>(inst.offset) >> (8 * which) & 0xff) * Scale;
            uint8_t* target = aligned_access<T>(wave, base + offset, lane);
            const T value = read_register<T>(wave, inst.src[1 + which].index, lane);
            old[which] = read_bytes<T>(target);
            std::memcpy(target, &value, sizeof(T));
        }
        write_register<T>(wave, inst.dst[0].index, lane, old[0]);
        write_register<T>(wave, static_cast<uint16_t>(inst.dst[0].index + sizeof(T) / 4), lane,
                          old[1]);
    });
}

/// ds_condxchg32_rtn_b64: each dword is replaced, with its top bit cleared, if the data's top bit
/// is set.
void conditional_exchange(Wave& wave, const Inst& inst) {
    refuse_gds(inst);
    for_each_lane(wave.exec(), [&](int lane) {
        const uint32_t address = ds_address(wave, inst, lane);
        uint8_t* target = aligned_access<uint64_t>(wave, address, lane);
        for (unsigned dword = 0; dword < 2; ++dword) {
            const uint32_t data =
                wave.lanes(static_cast<uint16_t>(inst.src[1].index + dword))[lane];
            const uint32_t old = read_bytes<uint32_t>(target + 4 * dword);
            if ((data & 0x80000000u) != 0) {
                const uint32_t value = data & 0x7fffffffu;
                std::memcpy(target + 4 * dword, &value, 4);
            }
            wave.lanes(static_cast<uint16_t>(inst.dst[0].index + dword))[lane] = old;
        }
    });
}

/// ds_append / ds_consume: one counter for the wave at M0 + offset moves by the number of active
/// lanes, and each of them receives the old value (LLVM selectDSAppendConsume puts the LDS pointer
/// into M0 as it is).
template <bool Append>
void count_lanes(Wave& wave, const Inst& inst) {
    refuse_gds(inst);
    const uint64_t exec = wave.exec();
    if (exec == 0) {
        return;
    }
    const int first = std::countr_zero(exec);
    const uint64_t address = lds_base_from_m0(wave, inst) + static_cast<uint64_t>(inst.offset);
    uint8_t* target = aligned_access<uint32_t>(wave, address, first);
    const uint32_t old = read_bytes<uint32_t>(target),
                   count = static_cast<uint32_t>(std::popcount(exec));
    const uint32_t updated = Append ? old + count : old - count;
    std::memcpy(target, &updated, 4);
    for_each_lane(exec, [&](int lane) { wave.lanes(inst.dst[0].index)[lane] = old; });
}

constexpr OpInfo gws_row(const char* name, uint16_t opcode, DsOperands operands) {
    return missing(ds_row(name, opcode, kAllTargets, operands, kReadsM0, nullptr),
                   "global wave sync needs a semaphore that the kernel driver allots; HIP never asks for one");
}

template <AtomicOp Op, typename T, bool Returns>
constexpr OpInfo row(const char* name, uint16_t opcode, TargetMask targets = kAllTargets) {
    constexpr Type type = sizeof(T) == 8 ? Type::kB64 : Type::kB32;
    constexpr bool is_float = Op == AtomicOp::kAddFloat || Op == AtomicOp::kMinFloat ||
                              Op == AtomicOp::kMaxFloat || Op == AtomicOp::kPkAddF16;
    const DsOperands operands{.loaded = Returns ? type : Type::kNone,
                              .data0 = type,
                              .data1 = takes_two_operands(Op) ? type : Type::kNone};
    return ds_row(name, opcode, targets, operands, kLds | (is_float ? kReadsMode : kNoFlags),
                  atomic<Op, T, Returns>);
}

template <typename T, uint32_t Stride>
constexpr OpInfo exchange2_row(const char* name, uint16_t opcode) {
    constexpr Type type = sizeof(T) == 8 ? Type::kB64 : Type::kB32;
    constexpr Type pair = sizeof(T) == 8 ? Type::kB128 : Type::kB64;
    return ds_row(name, opcode, kAllTargets, {.loaded = pair, .data0 = type, .data1 = type}, kLds,
                  exchange2<T, Stride * sizeof(T)>);
}

constexpr DsOperands kGwsPlain{.address = Type::kNone};
constexpr DsOperands kGwsValue{};  // the value stands in the ADDR field
constexpr DsOperands kCounter{.loaded = Type::kB32, .address = Type::kNone};

constexpr OpInfo kRows[] = {
    row<AtomicOp::kAdd, uint32_t, false>("ds_add_u32", 0x00),
    row<AtomicOp::kSub, uint32_t, false>("ds_sub_u32", 0x01),
    row<AtomicOp::kReverseSub, uint32_t, false>("ds_rsub_u32", 0x02),
    row<AtomicOp::kInc, uint32_t, false>("ds_inc_u32", 0x03),
    row<AtomicOp::kDec, uint32_t, false>("ds_dec_u32", 0x04),
    row<AtomicOp::kSignedMin, uint32_t, false>("ds_min_i32", 0x05),
    row<AtomicOp::kSignedMax, uint32_t, false>("ds_max_i32", 0x06),
    row<AtomicOp::kUnsignedMin, uint32_t, false>("ds_min_u32", 0x07),
    row<AtomicOp::kUnsignedMax, uint32_t, false>("ds_max_u32", 0x08),
    row<AtomicOp::kAnd, uint32_t, false>("ds_and_b32", 0x09),
    row<AtomicOp::kOr, uint32_t, false>("ds_or_b32", 0x0a),
    row<AtomicOp::kXor, uint32_t, false>("ds_xor_b32", 0x0b),
    row<AtomicOp::kMaskOr, uint32_t, false>("ds_mskor_b32", 0x0c),
    row<AtomicOp::kCompareSwap, uint32_t, false>("ds_cmpst_b32", 0x10),
    row<AtomicOp::kCompareSwapFloat, uint32_t, false>("ds_cmpst_f32", 0x11),
    row<AtomicOp::kMinFloat, uint32_t, false>("ds_min_f32", 0x12),
    row<AtomicOp::kMaxFloat, uint32_t, false>("ds_max_f32", 0x13),
    row<AtomicOp::kAddFloat, uint32_t, false>("ds_add_f32", 0x15),
    row<AtomicOp::kPkAddF16, uint32_t, false>("ds_pk_add_f16", 0x17, kGfx940Plus),
    row<AtomicOp::kPkAddBf16, uint32_t, false>("ds_pk_add_bf16", 0x18, kGfx940Plus),
    row<AtomicOp::kAdd, uint32_t, true>("ds_add_rtn_u32", 0x20),
    row<AtomicOp::kSub, uint32_t, true>("ds_sub_rtn_u32", 0x21),
    row<AtomicOp::kReverseSub, uint32_t, true>("ds_rsub_rtn_u32", 0x22),
    row<AtomicOp::kInc, uint32_t, true>("ds_inc_rtn_u32", 0x23),
    row<AtomicOp::kDec, uint32_t, true>("ds_dec_rtn_u32", 0x24),
    row<AtomicOp::kSignedMin, uint32_t, true>("ds_min_rtn_i32", 0x25),
    row<AtomicOp::kSignedMax, uint32_t, true>("ds_max_rtn_i32", 0x26),
    row<AtomicOp::kUnsignedMin, uint32_t, true>("ds_min_rtn_u32", 0x27),
    row<AtomicOp::kUnsignedMax, uint32_t, true>("ds_max_rtn_u32", 0x28),
    row<AtomicOp::kAnd, uint32_t, true>("ds_and_rtn_b32", 0x29),
    row<AtomicOp::kOr, uint32_t, true>("ds_or_rtn_b32", 0x2a),
    row<AtomicOp::kXor, uint32_t, true>("ds_xor_rtn_b32", 0x2b),
    row<AtomicOp::kMaskOr, uint32_t, true>("ds_mskor_rtn_b32", 0x2c),
    row<AtomicOp::kSwap, uint32_t, true>("ds_wrxchg_rtn_b32", 0x2d),
    row<AtomicOp::kCompareSwap, uint32_t, true>("ds_cmpst_rtn_b32", 0x30),
    row<AtomicOp::kCompareSwapFloat, uint32_t, true>("ds_cmpst_rtn_f32", 0x31),
    row<AtomicOp::kMinFloat, uint32_t, true>("ds_min_rtn_f32", 0x32),
    row<AtomicOp::kMaxFloat, uint32_t, true>("ds_max_rtn_f32", 0x33),
    row<AtomicOp::kWrap, uint32_t, true>("ds_wrap_rtn_b32", 0x34),
    row<AtomicOp::kAddFloat, uint32_t, true>("ds_add_rtn_f32", 0x35),
    row<AtomicOp::kAdd, uint64_t, false>("ds_add_u64", 0x40),
    row<AtomicOp::kSub, uint64_t, false>("ds_sub_u64", 0x41),
    row<AtomicOp::kReverseSub, uint64_t, false>("ds_rsub_u64", 0x42),
    row<AtomicOp::kInc, uint64_t, false>("ds_inc_u64", 0x43),
    row<AtomicOp::kDec, uint64_t, false>("ds_dec_u64", 0x44),
    row<AtomicOp::kSignedMin, uint64_t, false>("ds_min_i64", 0x45),
    row<AtomicOp::kSignedMax, uint64_t, false>("ds_max_i64", 0x46),
    row<AtomicOp::kUnsignedMin, uint64_t, false>("ds_min_u64", 0x47),
    row<AtomicOp::kUnsignedMax, uint64_t, false>("ds_max_u64", 0x48),
    row<AtomicOp::kAnd, uint64_t, false>("ds_and_b64", 0x49),
    row<AtomicOp::kOr, uint64_t, false>("ds_or_b64", 0x4a),
    row<AtomicOp::kXor, uint64_t, false>("ds_xor_b64", 0x4b),
    row<AtomicOp::kMaskOr, uint64_t, false>("ds_mskor_b64", 0x4c),
    row<AtomicOp::kCompareSwap, uint64_t, false>("ds_cmpst_b64", 0x50),
    row<AtomicOp::kCompareSwapFloat, uint64_t, false>("ds_cmpst_f64", 0x51),
    row<AtomicOp::kMinFloat, uint64_t, false>("ds_min_f64", 0x52),
    row<AtomicOp::kMaxFloat, uint64_t, false>("ds_max_f64", 0x53),
    row<AtomicOp::kAddFloat, uint64_t, false>("ds_add_f64", 0x5c),
    row<AtomicOp::kAdd, uint64_t, true>("ds_add_rtn_u64", 0x60),
    row<AtomicOp::kSub, uint64_t, true>("ds_sub_rtn_u64", 0x61),
    row<AtomicOp::kReverseSub, uint64_t, true>("ds_rsub_rtn_u64", 0x62),
    row<AtomicOp::kInc, uint64_t, true>("ds_inc_rtn_u64", 0x63),
    row<AtomicOp::kDec, uint64_t, true>("ds_dec_rtn_u64", 0x64),
    row<AtomicOp::kSignedMin, uint64_t, true>("ds_min_rtn_i64", 0x65),
    row<AtomicOp::kSignedMax, uint64_t, true>("ds_max_rtn_i64", 0x66),
    row<AtomicOp::kUnsignedMin, uint64_t, true>("ds_min_rtn_u64", 0x67),
    row<AtomicOp::kUnsignedMax, uint64_t, true>("ds_max_rtn_u64", 0x68),
    row<AtomicOp::kAnd, uint64_t, true>("ds_and_rtn_b64", 0x69),
    row<AtomicOp::kOr, uint64_t, true>("ds_or_rtn_b64", 0x6a),
    row<AtomicOp::kXor, uint64_t, true>("ds_xor_rtn_b64", 0x6b),
    row<AtomicOp::kMaskOr, uint64_t, true>("ds_mskor_rtn_b64", 0x6c),
    row<AtomicOp::kSwap, uint64_t, true>("ds_wrxchg_rtn_b64", 0x6d),
    row<AtomicOp::kCompareSwap, uint64_t, true>("ds_cmpst_rtn_b64", 0x70),
    row<AtomicOp::kCompareSwapFloat, uint64_t, true>("ds_cmpst_rtn_f64", 0x71),
    row<AtomicOp::kMinFloat, uint64_t, true>("ds_min_rtn_f64", 0x72),
    row<AtomicOp::kMaxFloat, uint64_t, true>("ds_max_rtn_f64", 0x73),
    row<AtomicOp::kAddFloat, uint64_t, true>("ds_add_rtn_f64", 0x7c),
    row<AtomicOp::kPkAddF16, uint32_t, true>("ds_pk_add_rtn_f16", 0xb7, kGfx940Plus),
    row<AtomicOp::kPkAddBf16, uint32_t, true>("ds_pk_add_rtn_bf16", 0xb8, kGfx940Plus),
    exchange2_row<uint32_t, 1>("ds_wrxchg2_rtn_b32", 0x2e),
    exchange2_row<uint32_t, 64>("ds_wrxchg2st64_rtn_b32", 0x2f),
    exchange2_row<uint64_t, 1>("ds_wrxchg2_rtn_b64", 0x6e),
    exchange2_row<uint64_t, 64>("ds_wrxchg2st64_rtn_b64", 0x6f),
    ds_row("ds_condxchg32_rtn_b64", 0x7e, kAllTargets, {.loaded = Type::kB64, .data0 = Type::kB64},
           kLds, conditional_exchange),
    gws_row("ds_gws_sema_release_all", 0x98, kGwsPlain),
    gws_row("ds_gws_init", 0x99, kGwsValue),
    gws_row("ds_gws_sema_v", 0x9a, kGwsPlain),
    gws_row("ds_gws_sema_br", 0x9b, kGwsValue),
    gws_row("ds_gws_sema_p", 0x9c, kGwsPlain),
    gws_row("ds_gws_barrier", 0x9d, kGwsValue),
    ds_row("ds_consume", 0xbd, kAllTargets, kCounter, kLds | kReadsM0, count_lanes<false>),
    ds_row("ds_append", 0xbe, kAllTargets, kCounter, kLds | kReadsM0, count_lanes<true>),
};

}  // namespace

std::span<const OpInfo> ds_atomic_rows() {
    return kRows;
}

}  // namespace asmevo::emulator
