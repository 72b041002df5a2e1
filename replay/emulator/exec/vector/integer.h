// Small integer helpers of the vector handlers.
#pragma once

#include <cstdint>
#include <limits>

#include "exec/vector/width.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

constexpr int32_t sext24(uint32_t value) { return static_cast<int32_t>(value << 8) >> 8; }
constexpr uint32_t low24(uint32_t value) { return value & 0xffffffu; }
constexpr uint16_t wrap16(uint32_t value) { return static_cast<uint16_t>(value); }

/// `value` limited to the range of T.
template <typename T>
constexpr T saturate(int64_t value) {
    constexpr int64_t kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max();
    return static_cast<T>(value < kLow ? kLow : value > kHigh ? kHigh : value);
}

template <typename T>
constexpr auto add_sat = [](T a, T b) { return saturate<T>(int64_t{a} + b); };
template <typename T>
constexpr auto sub_sat = [](T a, T b) { return saturate<T>(int64_t{a} - b); };
template <typename T>
constexpr auto subrev_sat = [](T a, T b) { return saturate<T>(int64_t{b} - a); };

constexpr uint32_t absolute_difference(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
