// Read-modify-write operations of DS, BUFFER, GLOBAL and FLAT, on host memory.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "exec/memory_ops/half.h"

namespace asmevo::emulator {

enum class AtomicOp : uint8_t {
    kSwap,
    kCompareSwap,
    kAdd,
    kSub,
    kReverseSub,
    kSignedMin,
    kUnsignedMin,
    kSignedMax,
    kUnsignedMax,
    kAnd,
    kOr,
    kXor,
    kInc,
    kDec,
    kMaskOr,
    kWrap,
    kCompareSwapFloat,
    kAddFloat,
    kMinFloat,
    kMaxFloat,
    kPkAddF16,
    kPkAddBf16,
};

/// Operands that the operation takes from registers besides memory's value.
constexpr bool takes_two_operands(AtomicOp op) {
    return op == AtomicOp::kCompareSwap || op == AtomicOp::kCompareSwapFloat ||
           op == AtomicOp::kMaskOr || op == AtomicOp::kWrap;
}

/// How floating-point atomics treat denormals. Rounding is always to nearest even.
/// DS obeys MODE.denorm except for f64 (LLVM SIISelLowering, shouldExpandAtomicRMWInIR: "DS FP
/// atomics do respect the denormal mode"); memory atomics keep them except f32 on gfx90a (LLVM
/// FeatureMemoryAtomicFAddF32DenormalSupport).
struct AtomicMode {
    bool flush_f32 = false;
    bool flush_f16 = false;
};

template <typename T>
using FloatOf = std::conditional_t<sizeof(T) == 8, double, float>;

template <typename Float>
inline Float flush_denormal(Float value, bool flush) {
    return flush && std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(Float{0}, value) : value;
}

/// Minimum and maximum as the ISA writes them (BUFFER_ATOMIC_MIN_F64, DS_MIN_F32: `src < tmp ? src :
/// tmp`), so of two zeros memory's stays. A NaN loses against a number, which LLVM relies on when it
/// selects them for minnum and maxnum (the ISA: the comparison "handles NAN").
template <typename Float>
inline Float min_number(Float memory, Float data) {
    return std::isnan(memory) || data < memory ? data : memory;
}
template <typename Float>
inline Float max_number(Float memory, Float data) {
    return std::isnan(memory) || data > memory ? data : memory;
}

template <AtomicOp Op, typename T>
inline T apply_float(T old, T data, AtomicMode mode) {
    using Float = FloatOf<T>;
    const bool flush = sizeof(T) == 4 && mode.flush_f32;
    const Float a = flush_denormal(std::bit_cast<Float>(old), flush);
    const Float b = flush_denormal(std::bit_cast<Float>(data), flush);
    Float result;
    if constexpr (Op == AtomicOp::kAddFloat) {
        result = flush_denormal(a + b, flush);
    } else if constexpr (Op == AtomicOp::kMinFloat) {
        result = min_number(a, b);
    } else {
        result = max_number(a, b);
    }
    return std::bit_cast<T>(result);
}

/// The value that memory holds afterwards. `first` and `second` are as DS orders them: for a
/// compare-and-swap, `first` is the comparand and `second` the new value; for kMaskOr, the mask and
/// the bits.
template <AtomicOp Op, typename T>
inline T apply(T old, T first, [[maybe_unused]] T second, [[maybe_unused]] AtomicMode mode) {
    using S = std::make_signed_t<T>;
    const S signed_old = static_cast<S>(old), signed_first = static_cast<S>(first);
    switch (Op) {
        case AtomicOp::kSwap:
            return first;
        case AtomicOp::kCompareSwap:
            return old == first ? second : old;
        case AtomicOp::kCompareSwapFloat:
            return std::bit_cast<FloatOf<T>>(old) == std::bit_cast<FloatOf<T>>(first) ? second
                                                                                      : old;
        case AtomicOp::kAdd:
            return old + first;
        case AtomicOp::kSub:
            return old - first;
        case AtomicOp::kReverseSub:
            return first - old;
        case AtomicOp::kSignedMin:
            return signed_first < signed_old ? first : old;
        case AtomicOp::kSignedMax:
            return signed_first > signed_old ? first : old;
        case AtomicOp::kUnsignedMin:
            return first < old ? first : old;
        case AtomicOp::kUnsignedMax:
            return first > old ? first : old;
        case AtomicOp::kAnd:
            return old & first;
        case AtomicOp::kOr:
            return old | first;
        case AtomicOp::kXor:
            return old ^ first;
        case AtomicOp::kInc:
            return old >= first ? 0 : old + 1;
        case AtomicOp::kDec:
            return old == 0 || old > first ? first : old - 1;
        case AtomicOp::kMaskOr:
            return (old & ~first) | second;
        case AtomicOp::kWrap:
            return old >= first ? old - first : old + second;
        case AtomicOp::kAddFloat:
        case AtomicOp::kMinFloat:
        case AtomicOp::kMaxFloat:
            return apply_float<Op, T>(old, first, mode);
        case AtomicOp::kPkAddF16:
            return static_cast<T>(pk_add_f16(static_cast<uint32_t>(old),
                                             static_cast<uint32_t>(first), mode.flush_f16));
        case AtomicOp::kPkAddBf16:
            return static_cast<T>(
                pk_add_bf16(static_cast<uint32_t>(old), static_cast<uint32_t>(first)));
    }
    return old;
}

/// Performs the operation atomically: workgroups run on several host threads. Returns memory's
/// value before it.
template <AtomicOp Op, typename T>
inline T atomic_apply(uint8_t* address, T first, T second, AtomicMode mode) {
    T* target = reinterpret_cast<T*>(address);
    T old = __atomic_load_n(target, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(target, &old, apply<Op, T>(old, first, second, mode), true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    return old;
}

}  // namespace asmevo::emulator
