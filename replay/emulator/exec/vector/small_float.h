// Number formats of at most 16 bits: FP8 and BF8 in their FNUZ (gfx942) and OCP (gfx950) forms, FP6, BF6 and FP4.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace asmevo::emulator {

struct SmallFormat {
    int exponent_bits, mantissa_bits, bias;
    bool is_fnuz;            // one NaN (sign bit alone), no infinity, no negative zero
    bool has_infinity;       // the top exponent is reserved, as in IEEE formats
    bool has_nan;
    uint16_t largest;        // code of the largest finite number
    constexpr int width() const { return 1 + exponent_bits + mantissa_bits; }
    constexpr uint16_t sign() const { return static_cast<uint16_t>(1 << (width() - 1)); }
};

constexpr SmallFormat kFp8Fnuz{4, 3, 8, true, false, true, 0x7f};
constexpr SmallFormat kBf8Fnuz{5, 2, 16, true, false, true, 0x7f};
constexpr SmallFormat kFp8Ocp{4, 3, 7, false, false, true, 0x7e};
constexpr SmallFormat kBf8Ocp{5, 2, 15, false, true, true, 0x7b};
constexpr SmallFormat kFp6{2, 3, 1, false, false, false, 0x1f};
constexpr SmallFormat kBf6{3, 2, 3, false, false, false, 0x1f};
constexpr SmallFormat kFp4{2, 1, 1, false, false, false, 0x7};
constexpr SmallFormat kHalf{5, 10, 15, false, true, true, 0x7bff};
constexpr SmallFormat kBrainHalf{8, 7, 127, false, true, true, 0x7f7f};

/// Value of a code; exact in f32.
constexpr float decode_small(const SmallFormat& format, uint8_t code) {
    const bool negative = (code & format.sign()) != 0;
    const int magnitude = code & (format.sign() - 1);
    if (format.is_fnuz && negative && magnitude == 0) {
        return std::numeric_limits<float>::quiet_NaN();
    }
    if (format.has_nan && magnitude > format.largest) {
        const bool infinite = format.has_infinity && magnitude == format.largest + 1;
        const float special = infinite ? std::numeric_limits<float>::infinity()
                                       : std::numeric_limits<float>::quiet_NaN();
        return negative ? -special : special;
    }
    const int exponent = magnitude >> format.mantissa_bits;
    const int mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
    const int whole = exponent == 0 ? mantissa : mantissa | 1 << format.mantissa_bits;
    const int power = (exponent == 0 ? 1 : exponent) - format.bias - format.mantissa_bits;
    const float scale = std::bit_cast<float>(static_cast<uint32_t>(127 + power) << 23);
    const float value = static_cast<float>(whole) * scale;
    return negative ? -value : value;
}

template <SmallFormat Format>
constexpr std::array<float, 256> make_decode_table() {
    std::array<float, 256> table{};
    for (int code = 0; code < 256; ++code) {
        table[static_cast<size_t>(code)] =
            decode_small(Format, static_cast<uint8_t>(code & ((1 << Format.width()) - 1)));
    }
    return table;
}

template <SmallFormat Format>
constexpr std::array<float, 256> kDecodeTable = make_decode_table<Format>();

/// Code of the magnitude of a finite value, rounded to nearest even; may lie above Format.largest.
constexpr uint32_t round_magnitude(const SmallFormat& format, double value) {
    const uint64_t bits = std::bit_cast<uint64_t>(value) & 0x7fffffffffffffffull;
    const int exponent = static_cast<int>(bits >> 52) - 1023;
    const int smallest = 1 - format.bias;  // exponent of the smallest normal number
    const int lost = 52 - format.mantissa_bits + (exponent < smallest ? smallest - exponent : 0);
    if (lost > 60) {
        return 0;
    }
    const uint64_t mantissa = (bits & 0xfffffffffffffull) | 1ull << 52;
    const uint64_t half = 1ull << (lost - 1), rest = mantissa & (half * 2 - 1);
    uint64_t code = mantissa >> lost;
    code += rest > half || (rest == half && (code & 1) != 0) ? 1 : 0;
    const uint64_t first = exponent < smallest ? 0 : static_cast<uint64_t>(exponent - smallest);
    return static_cast<uint32_t>(code + (first << format.mantissa_bits));
}

/// Code of the magnitude of a finite value, rounded stochastically; may lie above Format.largest. The value has at
/// most `source_bits` bits behind its leading one. Its significand is aligned to the format's (what falls off a
/// subnormal is lost), the top bits of `random` are added to the bits below the last kept one, and the sum is cut
/// off: HIP's host conversion (amd_hip_ocp_host.hpp, from_float_sr), with which the CDNA3 pseudocode of
/// V_CVT_SR_FP8_F32 agrees in what it adds (S1[31:12]).
constexpr uint32_t round_stochastically(const SmallFormat& format, double value, int source_bits, uint32_t random) {
    const uint64_t bits = std::bit_cast<uint64_t>(value) & 0x7fffffffffffffffull;
    if (bits == 0) {
        return 0;
    }
    const int exponent = static_cast<int>(bits >> 52) - 1023;
    const int smallest = 1 - format.bias;  // exponent of the smallest normal number
    const int dropped = source_bits - format.mantissa_bits;
    const uint64_t fraction = (bits & 0xfffffffffffffull) >> (52 - source_bits);
    uint64_t significand = fraction | 1ull << source_bits;
    uint64_t first = 0;
    if (exponent < smallest) {
        significand = smallest - exponent < 32 ? significand >> (smallest - exponent) : 0;
    } else {
        first = static_cast<uint64_t>(exponent - smallest);
    }
    significand += dropped == 0 ? 0 : random >> (32 - dropped);
    return static_cast<uint32_t>((significand >> dropped) + (first << format.mantissa_bits));
}

}  // namespace asmevo::emulator
