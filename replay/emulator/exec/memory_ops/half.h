// Packed 16-bit floating-point addition of the memory atomics. Results round to nearest even.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>

namespace asmevo::emulator {

inline uint32_t float_to_half(float value) {
    return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
inline float half_to_float(uint32_t bits) {
    return _cvtsh_ss(static_cast<uint16_t>(bits));
}

inline uint32_t flush_half(uint32_t bits, bool flush) {
    return flush && (bits & 0x7c00) == 0 ? bits & 0x8000 : bits;
}

// Rounding the f32 sum again is harmless: f32 has 24 >= 2 * 11 + 2 significant bits (bf16: 24 >= 2
// * 8 + 2).
inline uint32_t add_half(uint32_t a, uint32_t b, bool flush) {
    const float sum = half_to_float(flush_half(a, flush)) + half_to_float(flush_half(b, flush));
    return flush_half(float_to_half(sum), flush);
}

inline uint32_t pk_add_f16(uint32_t a, uint32_t b, bool flush) {
    return add_half(a & 0xffff, b & 0xffff, flush) | add_half(a >> 16, b >> 16, flush) << 16;
}

inline uint32_t float_to_bf16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return bits >> 16 | 0x40;
    }
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline float bf16_to_float(uint32_t bits) {
    return std::bit_cast<float>(bits << 16);
}

inline uint32_t pk_add_bf16(uint32_t a, uint32_t b) {
    const float low = bf16_to_float(a & 0xffff) + bf16_to_float(b & 0xffff);
    const float high = bf16_to_float(a >> 16) + bf16_to_float(b >> 16);
    return float_to_bf16(low) | float_to_bf16(high) << 16;
}

}  // namespace asmevo::emulator
