// MUBUF atomics (CDNA3 ISA chapter 9). A lane out of range does nothing and returns zero.
#include "exec/memory_ops/atomics.h"
#include "exec/memory_ops/buffer_address.h"
#include "exec/memory_ops/buffer_rows.h"
#include "exec/memory_ops/lds.h"

namespace asmevo::emulator {
namespace {

template <AtomicOp Op, typename T>
void atomic(Wave& wave, const Inst& inst) {
    constexpr Data data_shape = sizeof(T) == 8 ? Data::kB64 : Data::kB32;
    constexpr bool is_compare = Op == AtomicOp::kCompareSwap;
    const BufferAccess access(wave, inst);
    const AtomicMode mode{.flush_f32 = Op == AtomicOp::kAddFloat && inst.target == Target::kGfx90a};
    for_each_lane(wave.exec(), [&](int lane) {
        const BufferOffset offset = access.at(lane);
        T old = 0;
        if (access.in_range(offset, 0)) {
            const uint64_t address = access.address(offset);
            require_aligned("buffer", address, sizeof(T), lane);
            T operands[2] = {};  // cmpswap: the new value, then the comparand
            uint8_t bytes[sizeof operands];
            store_lane<data_shape>(wave, inst.src[1].index, lane, bytes);
            if constexpr (is_compare) {
                store_lane<data_shape>(wave,
                                       static_cast<uint16_t>(inst.src[1].index + sizeof(T) / 4),
                                       lane, bytes + sizeof(T));
            }
            std::memcpy(operands, bytes, is_compare ? sizeof operands : sizeof(T));
            uint8_t* target = wave.memory.access_atomic(address, sizeof(T), lane);
            old = is_compare ? atomic_apply<Op, T>(target, operands[1], operands[0], mode)
                             : atomic_apply<Op, T>(target, operands[0], 0, mode);
        }
        if (inst.glc) {
            uint8_t bytes[sizeof(T)];
            std::memcpy(bytes, &old, sizeof(T));
            load_lane<data_shape>(wave, inst.dst[0].index, lane, bytes);
        }
    });
}

template <AtomicOp Op, typename T>
constexpr OpInfo row(const char* name, uint16_t opcode, TargetMask targets = kAllTargets) {
    constexpr Type type = sizeof(T) == 8 ? Type::kB64 : Type::kB32;
    constexpr Type pair = sizeof(T) == 8 ? Type::kB128 : Type::kB64;
    return buffer_row(Encoding::kMubuf, name, opcode, targets, Category::kVmemAtomic, type,
                      Op == AtomicOp::kCompareSwap ? pair : type, kReturnsWithGlc, atomic<Op, T>);
}

constexpr OpInfo kRows[] = {
    row<AtomicOp::kSwap, uint32_t>("buffer_atomic_swap", 0x40),
    row<AtomicOp::kCompareSwap, uint32_t>("buffer_atomic_cmpswap", 0x41),
    row<AtomicOp::kAdd, uint32_t>("buffer_atomic_add", 0x42),
    row<AtomicOp::kSub, uint32_t>("buffer_atomic_sub", 0x43),
    row<AtomicOp::kSignedMin, uint32_t>("buffer_atomic_smin", 0x44),
    row<AtomicOp::kUnsignedMin, uint32_t>("buffer_atomic_umin", 0x45),
    row<AtomicOp::kSignedMax, uint32_t>("buffer_atomic_smax", 0x46),
    row<AtomicOp::kUnsignedMax, uint32_t>("buffer_atomic_umax", 0x47),
    row<AtomicOp::kAnd, uint32_t>("buffer_atomic_and", 0x48),
    row<AtomicOp::kOr, uint32_t>("buffer_atomic_or", 0x49),
    row<AtomicOp::kXor, uint32_t>("buffer_atomic_xor", 0x4a),
    row<AtomicOp::kInc, uint32_t>("buffer_atomic_inc", 0x4b),
    row<AtomicOp::kDec, uint32_t>("buffer_atomic_dec", 0x4c),
    row<AtomicOp::kAddFloat, uint32_t>("buffer_atomic_add_f32", 0x4d),
    row<AtomicOp::kPkAddF16, uint32_t>("buffer_atomic_pk_add_f16", 0x4e),
    row<AtomicOp::kAddFloat, uint64_t>("buffer_atomic_add_f64", 0x4f),
    row<AtomicOp::kMinFloat, uint64_t>("buffer_atomic_min_f64", 0x50),
    row<AtomicOp::kMaxFloat, uint64_t>("buffer_atomic_max_f64", 0x51),
    row<AtomicOp::kPkAddBf16, uint32_t>("buffer_atomic_pk_add_bf16", 0x52, kGfx950Bit),
    row<AtomicOp::kSwap, uint64_t>("buffer_atomic_swap_x2", 0x60),
    row<AtomicOp::kCompareSwap, uint64_t>("buffer_atomic_cmpswap_x2", 0x61),
    row<AtomicOp::kAdd, uint64_t>("buffer_atomic_add_x2", 0x62),
    row<AtomicOp::kSub, uint64_t>("buffer_atomic_sub_x2", 0x63),
    row<AtomicOp::kSignedMin, uint64_t>("buffer_atomic_smin_x2", 0x64),
    row<AtomicOp::kUnsignedMin, uint64_t>("buffer_atomic_umin_x2", 0x65),
    row<AtomicOp::kSignedMax, uint64_t>("buffer_atomic_smax_x2", 0x66),
    row<AtomicOp::kUnsignedMax, uint64_t>("buffer_atomic_umax_x2", 0x67),
    row<AtomicOp::kAnd, uint64_t>("buffer_atomic_and_x2", 0x68),
    row<AtomicOp::kOr, uint64_t>("buffer_atomic_or_x2", 0x69),
    row<AtomicOp::kXor, uint64_t>("buffer_atomic_xor_x2", 0x6a),
    row<AtomicOp::kInc, uint64_t>("buffer_atomic_inc_x2", 0x6b),
    row<AtomicOp::kDec, uint64_t>("buffer_atomic_dec_x2", 0x6c),
};

}  // namespace

std::span<const OpInfo> buffer_atomic_rows() {
    return kRows;
}

}  // namespace asmevo::emulator
