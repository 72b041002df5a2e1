// FLAT and GLOBAL atomics (CDNA3 ISA chapter 10).
#include "exec/memory_ops/atomics.h"
#include "exec/memory_ops/flat_rows.h"

namespace asmevo::emulator {
namespace {

template <typename T>
T read_register(const Wave& wave, uint16_t index, int lane) {
    if constexpr (sizeof(T) == 4) {
        return wave.lanes(index)[lane];
    } else {
        return static_cast<T>(wave.lanes(index + 1)[lane]) << 32 | wave.lanes(index)[lane];
    }
}

/// cmpswap's data registers hold the new value first, then the comparand.
template <Segment S, AtomicOp Op, typename T>
void atomic(Wave& wave, const Inst& inst) {
    LaneAddresses addresses;
    compute_addresses<S>(wave, inst, addresses);
    const uint16_t data = inst.src[1].index;
    const AtomicMode mode{.flush_f32 = Op == AtomicOp::kAddFloat && inst.target == Target::kGfx90a};
    for_each_lane(wave.exec(), [&](int lane) {
        const uint64_t address = addresses.lane[lane];
        require_aligned("global", address, sizeof(T), lane);
        T first = read_register<T>(wave, data, lane), second = 0;
        if constexpr (Op == AtomicOp::kCompareSwap) {
            second = first;
            first = read_register<T>(wave, data + sizeof(T) / 4, lane);
        }
        const T old = atomic_apply<Op, T>(resolve<S, true>(wave, address, sizeof(T), true, lane),
                                          first, second, mode);
        if (inst.glc) {
            uint8_t bytes[sizeof(T)];
            std::memcpy(bytes, &old, sizeof(T));
            load_lane<sizeof(T) == 8 ? Data::kB64 : Data::kB32>(wave, inst.dst[0].index, lane,
                                                                bytes);
        }
    });
}

template <Segment S, AtomicOp Op, typename T>
constexpr OpInfo row(const char* name, uint16_t opcode, TargetMask targets = kAllTargets) {
    constexpr Type type = sizeof(T) == 8 ? Type::kB64 : Type::kB32;
    constexpr Type pair = sizeof(T) == 8 ? Type::kB128 : Type::kB64;
    return flat_row<S>(name, opcode, targets, Access::kAtomic, type,
                       Op == AtomicOp::kCompareSwap ? pair : type, kReturnsWithGlc,
                       atomic<S, Op, T>);
}

constexpr auto kFlat = Segment::kFlat;
constexpr auto kGlobal = Segment::kGlobal;

constexpr OpInfo kRows[] = {
    row<kFlat, AtomicOp::kSwap, uint32_t>("flat_atomic_swap", 0x40),
    row<kFlat, AtomicOp::kCompareSwap, uint32_t>("flat_atomic_cmpswap", 0x41),
    row<kFlat, AtomicOp::kAdd, uint32_t>("flat_atomic_add", 0x42),
    row<kFlat, AtomicOp::kSub, uint32_t>("flat_atomic_sub", 0x43),
    row<kFlat, AtomicOp::kSignedMin, uint32_t>("flat_atomic_smin", 0x44),
    row<kFlat, AtomicOp::kUnsignedMin, uint32_t>("flat_atomic_umin", 0x45),
    row<kFlat, AtomicOp::kSignedMax, uint32_t>("flat_atomic_smax", 0x46),
    row<kFlat, AtomicOp::kUnsignedMax, uint32_t>("flat_atomic_umax", 0x47),
    row<kFlat, AtomicOp::kAnd, uint32_t>("flat_atomic_and", 0x48),
    row<kFlat, AtomicOp::kOr, uint32_t>("flat_atomic_or", 0x49),
    row<kFlat, AtomicOp::kXor, uint32_t>("flat_atomic_xor", 0x4a),
    row<kFlat, AtomicOp::kInc, uint32_t>("flat_atomic_inc", 0x4b),
    row<kFlat, AtomicOp::kDec, uint32_t>("flat_atomic_dec", 0x4c),
    row<kFlat, AtomicOp::kAddFloat, uint32_t>("flat_atomic_add_f32", 0x4d, kGfx940Plus),
    row<kFlat, AtomicOp::kPkAddF16, uint32_t>("flat_atomic_pk_add_f16", 0x4e, kGfx940Plus),
    row<kFlat, AtomicOp::kAddFloat, uint64_t>("flat_atomic_add_f64", 0x4f),
    row<kFlat, AtomicOp::kMinFloat, uint64_t>("flat_atomic_min_f64", 0x50),
    row<kFlat, AtomicOp::kMaxFloat, uint64_t>("flat_atomic_max_f64", 0x51),
    row<kFlat, AtomicOp::kPkAddBf16, uint32_t>("flat_atomic_pk_add_bf16", 0x52, kGfx940Plus),
    row<kFlat, AtomicOp::kSwap, uint64_t>("flat_atomic_swap_x2", 0x60),
    row<kFlat, AtomicOp::kCompareSwap, uint64_t>("flat_atomic_cmpswap_x2", 0x61),
    row<kFlat, AtomicOp::kAdd, uint64_t>("flat_atomic_add_x2", 0x62),
    row<kFlat, AtomicOp::kSub, uint64_t>("flat_atomic_sub_x2", 0x63),
    row<kFlat, AtomicOp::kSignedMin, uint64_t>("flat_atomic_smin_x2", 0x64),
    row<kFlat, AtomicOp::kUnsignedMin, uint64_t>("flat_atomic_umin_x2", 0x65),
    row<kFlat, AtomicOp::kSignedMax, uint64_t>("flat_atomic_smax_x2", 0x66),
    row<kFlat, AtomicOp::kUnsignedMax, uint64_t>("flat_atomic_umax_x2", 0x67),
    row<kFlat, AtomicOp::kAnd, uint64_t>("flat_atomic_and_x2", 0x68),
    row<kFlat, AtomicOp::kOr, uint64_t>("flat_atomic_or_x2", 0x69),
    row<kFlat, AtomicOp::kXor, uint64_t>("flat_atomic_xor_x2", 0x6a),
    row<kFlat, AtomicOp::kInc, uint64_t>("flat_atomic_inc_x2", 0x6b),
    row<kFlat, AtomicOp::kDec, uint64_t>("flat_atomic_dec_x2", 0x6c),
    row<kGlobal, AtomicOp::kSwap, uint32_t>("global_atomic_swap", 0x40),
    row<kGlobal, AtomicOp::kCompareSwap, uint32_t>("global_atomic_cmpswap", 0x41),
    row<kGlobal, AtomicOp::kAdd, uint32_t>("global_atomic_add", 0x42),
    row<kGlobal, AtomicOp::kSub, uint32_t>("global_atomic_sub", 0x43),
    row<kGlobal, AtomicOp::kSignedMin, uint32_t>("global_atomic_smin", 0x44),
    row<kGlobal, AtomicOp::kUnsignedMin, uint32_t>("global_atomic_umin", 0x45),
    row<kGlobal, AtomicOp::kSignedMax, uint32_t>("global_atomic_smax", 0x46),
    row<kGlobal, AtomicOp::kUnsignedMax, uint32_t>("global_atomic_umax", 0x47),
    row<kGlobal, AtomicOp::kAnd, uint32_t>("global_atomic_and", 0x48),
    row<kGlobal, AtomicOp::kOr, uint32_t>("global_atomic_or", 0x49),
    row<kGlobal, AtomicOp::kXor, uint32_t>("global_atomic_xor", 0x4a),
    row<kGlobal, AtomicOp::kInc, uint32_t>("global_atomic_inc", 0x4b),
    row<kGlobal, AtomicOp::kDec, uint32_t>("global_atomic_dec", 0x4c),
    row<kGlobal, AtomicOp::kAddFloat, uint32_t>("global_atomic_add_f32", 0x4d),
    row<kGlobal, AtomicOp::kPkAddF16, uint32_t>("global_atomic_pk_add_f16", 0x4e),
    row<kGlobal, AtomicOp::kAddFloat, uint64_t>("global_atomic_add_f64", 0x4f),
    row<kGlobal, AtomicOp::kMinFloat, uint64_t>("global_atomic_min_f64", 0x50),
    row<kGlobal, AtomicOp::kMaxFloat, uint64_t>("global_atomic_max_f64", 0x51),
    row<kGlobal, AtomicOp::kPkAddBf16, uint32_t>("global_atomic_pk_add_bf16", 0x52, kGfx940Plus),
    row<kGlobal, AtomicOp::kSwap, uint64_t>("global_atomic_swap_x2", 0x60),
    row<kGlobal, AtomicOp::kCompareSwap, uint64_t>("global_atomic_cmpswap_x2", 0x61),
    row<kGlobal, AtomicOp::kAdd, uint64_t>("global_atomic_add_x2", 0x62),
    row<kGlobal, AtomicOp::kSub, uint64_t>("global_atomic_sub_x2", 0x63),
    row<kGlobal, AtomicOp::kSignedMin, uint64_t>("global_atomic_smin_x2", 0x64),
    row<kGlobal, AtomicOp::kUnsignedMin, uint64_t>("global_atomic_umin_x2", 0x65),
    row<kGlobal, AtomicOp::kSignedMax, uint64_t>("global_atomic_smax_x2", 0x66),
    row<kGlobal, AtomicOp::kUnsignedMax, uint64_t>("global_atomic_umax_x2", 0x67),
    row<kGlobal, AtomicOp::kAnd, uint64_t>("global_atomic_and_x2", 0x68),
    row<kGlobal, AtomicOp::kOr, uint64_t>("global_atomic_or_x2", 0x69),
    row<kGlobal, AtomicOp::kXor, uint64_t>("global_atomic_xor_x2", 0x6a),
    row<kGlobal, AtomicOp::kInc, uint64_t>("global_atomic_inc_x2", 0x6b),
    row<kGlobal, AtomicOp::kDec, uint64_t>("global_atomic_dec_x2", 0x6c),
};

}  // namespace

std::span<const OpInfo> flat_atomic_rows() {
    return kRows;
}

}  // namespace asmevo::emulator
