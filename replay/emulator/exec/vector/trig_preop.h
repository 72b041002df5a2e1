// V_TRIG_PREOP_F64: a 53-bit segment of 2/pi, from which argument reduction of sin and cos is built.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "exec/vector/width.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

namespace detail {

// The fraction of 2/pi, most significant bit first. The ISA uses its first 1201 bits.
constexpr uint64_t kTwoOverPi[] = {
    0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull,
    0xe99c7026b45f7e41ull, 0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full,
    0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull,
    0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull, 0xf0cfbc209af4361dull,
};

}  // namespace detail

/// Segment number `segment` (5 bits) of 2/pi for the magnitude of `value`, scaled to its place.
inline double trig_preop(double value, uint32_t segment) {
    constexpr int kSegmentBits = 53, kTableBits = 1201;
    const int exponent = static_cast<int>(std::bit_cast<uint64_t>(value) >> 52 & 0x7ff);
    int shift = static_cast<int>(segment & 31) * kSegmentBits;
    shift += exponent > 1077 ? exponent - 1077 : 0;
    uint64_t bits = 0;
    for (int i = shift; i < shift + kSegmentBits; ++i) {
        const bool inside = i < kTableBits;
        bits = bits << 1 | (inside ? detail::kTwoOverPi[i / 64] >> (63 - i % 64) & 1 : 0);
    }
    const int scale = -kSegmentBits - shift + (exponent >= 1968 ? 128 : 0);
    return std::ldexp(static_cast<double>(bits), scale);
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
