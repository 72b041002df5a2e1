// SMEM atomics. The data register is overwritten with memory's old value when glc is set.
#include <array>
#include <cstring>
#include <vector>

#include "exec/memory_ops/atomics.h"
#include "exec/scalar/scalar_rows.h"
#include "exec/scalar/smem_address.h"

namespace asmevo::emulator {
namespace {

constexpr uint16_t kBufferFirst = 0x40, kBufferWideFirst = 0x60, kFirst = 0x80, kWideFirst = 0xa0;

/// Where the operation works; null when a buffer access is out of range, which then does nothing.
template <typename T, bool kIsBuffer>
uint8_t* target(Wave& wave, const Inst& inst) {
    if constexpr (!kIsBuffer) {
        return wave.memory.access_atomic(scalar_address(wave, inst), sizeof(T), -1);
    }
    ScalarBuffer buffer(&wave.sgpr[inst.src[0].index]);
    uint64_t offset = scalar_offset(wave, inst) & kDwordAligned;
    return buffer.holds(offset, sizeof(T)) ? wave.memory.access_atomic(buffer.at(offset), sizeof(T), -1)
                                           : nullptr;
}

template <AtomicOp kOp, typename T, bool kIsBuffer>
void run(Wave& wave, const Inst& inst) {
    T data[2];
    std::memcpy(data, &wave.sgpr[inst.src[2].index], 4u * inst.src[2].dwords);
    T old = 0;
    if (uint8_t* address = target<T, kIsBuffer>(wave, inst)) {
        // Compare and swap: the new value stands before the comparand.
        old = kOp == AtomicOp::kCompareSwap
                  ? atomic_apply<kOp, T>(address, data[1], data[0], AtomicMode{})
                  : atomic_apply<kOp, T>(address, data[0], T{0}, AtomicMode{});
    }
    if (inst.glc) {
        std::memcpy(&wave.sgpr[inst.src[2].index], &old, sizeof(T));
    }
}

constexpr OpInfo row(const char* name, uint16_t opcode, Type base, Type data, Type returned,
                     Handler handler) {
    return OpInfo{name,
                  Encoding::kSmem,
                  opcode,
                  kAllTargets,
                  Category::kSmem,
                  {returned, Type::kNone},
                  {base, Type::kB32, data, Type::kNone},
                  kReturnsWithGlc,
                  handler};
}

struct Names {
    const char *plain, *wide, *buffer, *buffer_wide;
};

template <AtomicOp kOp>
void add_rows(std::vector<OpInfo>& rows, uint16_t at, const Names& names) {
    constexpr bool kIsPair = kOp == AtomicOp::kCompareSwap;
    constexpr Type kData = kIsPair ? Type::kB64 : Type::kB32, kWide = kIsPair ? Type::kB128 : Type::kB64;
    auto opcode = [&](uint16_t first) { return static_cast<uint16_t>(first + at); };
    rows.push_back(row(names.plain, opcode(kFirst), Type::kB64, kData, Type::kB32, run<kOp, uint32_t, false>));
    rows.push_back(row(names.wide, opcode(kWideFirst), Type::kB64, kWide, Type::kB64, run<kOp, uint64_t, false>));
    rows.push_back(row(names.buffer, opcode(kBufferFirst), Type::kB128, kData, Type::kB32, run<kOp, uint32_t, true>));
    rows.push_back(
        row(names.buffer_wide, opcode(kBufferWideFirst), Type::kB128, kWide, Type::kB64, run<kOp, uint64_t, true>));
}

#define ASMEVO_SCALAR_ATOMIC(operation, at, name)                                                   \
    add_rows<AtomicOp::operation>(rows, at,                                                         \
                                  {"s_atomic_" name, "s_atomic_" name "_x2", "s_buffer_atomic_" name, \
                                   "s_buffer_atomic_" name "_x2"})

std::vector<OpInfo> build_rows() {
    std::vector<OpInfo> rows;
    ASMEVO_SCALAR_ATOMIC(kSwap, 0, "swap");
    ASMEVO_SCALAR_ATOMIC(kCompareSwap, 1, "cmpswap");
    ASMEVO_SCALAR_ATOMIC(kAdd, 2, "add");
    ASMEVO_SCALAR_ATOMIC(kSub, 3, "sub");
    ASMEVO_SCALAR_ATOMIC(kSignedMin, 4, "smin");
    ASMEVO_SCALAR_ATOMIC(kUnsignedMin, 5, "umin");
    ASMEVO_SCALAR_ATOMIC(kSignedMax, 6, "smax");
    ASMEVO_SCALAR_ATOMIC(kUnsignedMax, 7, "umax");
    ASMEVO_SCALAR_ATOMIC(kAnd, 8, "and");
    ASMEVO_SCALAR_ATOMIC(kOr, 9, "or");
    ASMEVO_SCALAR_ATOMIC(kXor, 10, "xor");
    ASMEVO_SCALAR_ATOMIC(kInc, 11, "inc");
    ASMEVO_SCALAR_ATOMIC(kDec, 12, "dec");
    return rows;
}

#undef ASMEVO_SCALAR_ATOMIC

}  // namespace

std::span<const OpInfo> smem_atomic_ops() {
    static const std::vector<OpInfo> rows = build_rows();
    return rows;
}

}  // namespace asmevo::emulator
