// What the type of a lane function says: how its arguments are read from registers and its result is written.
#pragma once

#include <bit>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "exec/vector/operand.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

/// An f16 value, widened for computing.
struct F16 {
    float value;
    F16() = default;
    F16(float v) : value(v) {}
    operator float() const { return value; }
};

/// What a lane function may need to know of the wave.
struct LaneEnv {
    uint32_t mode;
    bool ieee() const { return (mode & kModeIeee) != 0; }
    bool fp16_overflow() const { return (mode & kModeFp16Overflow) != 0; }
};

namespace detail {

template <typename T>
constexpr bool kIsHalfOrDouble = std::is_same_v<T, double> || std::is_same_v<T, F16>;

template <typename T>
constexpr bool kIsFloat = std::is_same_v<T, float> || kIsHalfOrDouble<T>;

template <typename R, typename... A>
struct LaneTypes {
    using Result = R;
    using Args = std::tuple<A...>;
    static constexpr bool kUsesFloat = kIsFloat<R> || (kIsFloat<A> || ...);
    static constexpr bool kUsesHalfOrDouble = kIsHalfOrDouble<R> || (kIsHalfOrDouble<A> || ...);
};

template <typename T>
struct SignatureOf;

template <typename C, typename R, typename... A>
struct SignatureOf<R (C::*)(A...) const> : LaneTypes<R, A...> {
    static constexpr bool kHasEnv = false;
};

template <typename C, typename R, typename... A>
struct SignatureOf<R (C::*)(LaneEnv, A...) const> : LaneTypes<R, A...> {
    static constexpr bool kHasEnv = true;
};

template <typename F>
struct Signature : SignatureOf<decltype(&F::operator())> {
    using Base = SignatureOf<decltype(&F::operator())>;
    static constexpr int kArity = std::tuple_size_v<typename Base::Args>;
    template <int I>
    using Arg = std::tuple_element_t<I, typename Base::Args>;
};

// MODE has one rounding field for f32 and one for f16 and f64; a conversion between them uses the latter
// (LLVM: FPDPRounding).
template <typename S>
unsigned rounding_field(uint32_t mode) {
    return S::kUsesHalfOrDouble ? (mode >> 2) & 3 : mode & 3;
}

template <typename T>
inline T load_lane(const Source& source, int lane) {
    if constexpr (sizeof(T) == 8) {
        return std::bit_cast<T>(static_cast<uint64_t>(source.high[lane]) << 32 | source.low[lane]);
    } else if constexpr (std::is_same_v<T, F16>) {
        return F16(std::bit_cast<float>(source.low[lane]));
    } else if constexpr (sizeof(T) == 2) {
        return static_cast<T>(source.low[lane]);
    } else {
        return std::bit_cast<T>(source.low[lane]);
    }
}

template <typename T>
inline void put_lane(uint32_t* low, uint32_t* high, int lane, T value) {
    if constexpr (std::is_same_v<T, bool>) {
        low[lane] = value ? ~0u : 0u;
    } else if constexpr (sizeof(T) == 8) {
        const uint64_t bits = std::bit_cast<uint64_t>(value);
        low[lane] = static_cast<uint32_t>(bits);
        high[lane] = static_cast<uint32_t>(bits >> 32);
    } else if constexpr (std::is_same_v<T, F16>) {
        low[lane] = std::bit_cast<uint32_t>(value.value);
    } else if constexpr (sizeof(T) == 2) {
        low[lane] = static_cast<uint16_t>(value);
    } else {
        low[lane] = std::bit_cast<uint32_t>(value);
    }
}

}  // namespace detail

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
