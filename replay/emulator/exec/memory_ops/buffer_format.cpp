#include "exec/memory_ops/buffer_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "exec/fault.h"
#include "exec/memory_ops/half.h"
#include "exec/vector/small_float.h"

namespace asmevo::emulator {
namespace {

enum NumFormat : uint8_t {
    kUnorm = 0,
    kSnorm = 1,
    kUscaled = 2,
    kSscaled = 3,
    kUint = 4,
    kSint = 5,
    kFloat = 7
};

struct Layout {
    uint8_t components;
    uint8_t bits[4];
};

// By BUF_DATA_FORMAT code; no components: reserved. AMD's names list the components of packed formats from the
// highest bit down (Mesa maps R11G11B10_FLOAT to 10_11_11 and R10G10B10A2 to 2_10_10_10).
constexpr Layout kLayouts[16] = {
    {0, {}},
    {1, {8}},                // 8
    {1, {16}},               // 16
    {2, {8, 8}},             // 8_8
    {1, {32}},               // 32
    {2, {16, 16}},           // 16_16
    {3, {11, 11, 10}},       // 10_11_11
    {3, {10, 11, 11}},       // 11_11_10
    {4, {2, 10, 10, 10}},    // 10_10_10_2
    {4, {10, 10, 10, 2}},    // 2_10_10_10
    {4, {8, 8, 8, 8}},       // 8_8_8_8
    {2, {32, 32}},           // 32_32
    {4, {16, 16, 16, 16}},   // 16_16_16_16
    {3, {32, 32, 32}},       // 32_32_32
    {4, {32, 32, 32, 32}},   // 32_32_32_32
    {0, {}},
};

// The unsigned floats of 10_11_11 and 11_11_10: five exponent bits and no sign.
constexpr SmallFormat kFloat11{5, 6, 15, false, true, true, 0x7bf};
constexpr SmallFormat kFloat10{5, 5, 15, false, true, true, 0x3df};

[[noreturn]] void refuse(uint8_t data_format, uint8_t num_format) {
    char text[96];
    std::snprintf(text, sizeof text, "buffer format %u/%u (data/number) is not implemented",
                  data_format, num_format);
    throw Fault(text);
}

bool is_supported(const Layout& layout, uint8_t num_format) {
    if (layout.components == 0 || num_format == 6) {
        return false;
    }
    switch (layout.bits[0]) {
        case 8:
            return num_format != kFloat;
        case 16:
            return true;
        case 32:
            return num_format == kUint || num_format == kSint || num_format == kFloat;
        default:
            return num_format != kFloat || layout.components == 3;
    }
}

uint32_t float_bits(float value) {
    return std::bit_cast<uint32_t>(value);
}

constexpr uint32_t low_bits(unsigned count) {
    return count == 32 ? ~0u : (1u << count) - 1;
}

int32_t sign_extend(uint32_t raw, unsigned bits) {
    return static_cast<int32_t>(raw << (32 - bits)) >> (32 - bits);
}

float decode_float(uint32_t raw, unsigned bits) {
    return half_to_float(raw << (bits == 16 ? 0 : 15 - bits));  // a half has the same exponent
}

uint32_t decode_one(uint8_t num_format, uint32_t raw, unsigned bits) {
    if (bits == 32) {
        return raw;
    }
    const float max_unsigned = static_cast<float>(low_bits(bits));
    const float max_signed = static_cast<float>(low_bits(bits - 1));
    switch (num_format) {
        case kUnorm:
            return float_bits(static_cast<float>(raw) / max_unsigned);
        case kSnorm:
            return float_bits(
                std::max(-1.0f, static_cast<float>(sign_extend(raw, bits)) / max_signed));
        case kUscaled:
            return float_bits(static_cast<float>(raw));
        case kSscaled:
            return float_bits(static_cast<float>(sign_extend(raw, bits)));
        case kUint:
            return raw;
        case kSint:
            return static_cast<uint32_t>(sign_extend(raw, bits));
        default:
            return float_bits(decode_float(raw, bits));
    }
}

uint32_t encode_normalized(float value, float low, float scale) {
    const float clamped = std::isnan(value) ? 0.0f : std::clamp(value, low, 1.0f);
    return static_cast<uint32_t>(static_cast<int32_t>(std::nearbyint(clamped * scale)));
}

uint32_t encode_scaled(float value, float low, float high) {
    const float clamped = std::isnan(value) ? 0.0f : std::clamp(value, low, high);
    return static_cast<uint32_t>(static_cast<int32_t>(clamped));
}

/// Nearest even; what is negative becomes zero, what is too large infinite.
uint32_t encode_unsigned_float(const SmallFormat& format, float value) {
    const uint32_t infinity = format.largest + 1u;
    if (std::isnan(value)) {
        return infinity + 1;
    }
    if (!(value > 0)) {
        return 0;
    }
    return std::isinf(value) ? infinity : std::min(round_magnitude(format, value), infinity);
}

uint32_t encode_float(float value, unsigned bits) {
    return bits == 16   ? float_to_half(value)
           : bits == 11 ? encode_unsigned_float(kFloat11, value)
                        : encode_unsigned_float(kFloat10, value);
}

uint32_t encode_one(uint8_t num_format, uint32_t value, unsigned bits) {
    if (bits == 32) {
        return value;
    }
    const uint32_t max_unsigned = low_bits(bits), max_signed = max_unsigned >> 1;
    const float real = std::bit_cast<float>(value);
    switch (num_format) {
        case kUnorm:
            return encode_normalized(real, 0.0f, static_cast<float>(max_unsigned));
        case kSnorm:
            return encode_normalized(real, -1.0f, static_cast<float>(max_signed));
        case kUscaled:
            return encode_scaled(real, 0.0f, static_cast<float>(max_unsigned));
        case kSscaled:
            return encode_scaled(real, -static_cast<float>(max_signed) - 1.0f,
                                 static_cast<float>(max_signed));
        case kUint:
            return std::min(value, max_unsigned);
        case kSint:
            return static_cast<uint32_t>(std::clamp(static_cast<int32_t>(value),
                                                    -static_cast<int32_t>(max_signed) - 1,
                                                    static_cast<int32_t>(max_signed)));
        default:
            return encode_float(real, bits);
    }
}

}  // namespace

BufferFormat buffer_format(uint8_t data_format, uint8_t num_format) {
    const Layout& layout = kLayouts[data_format & 15];
    if (!is_supported(layout, num_format)) {
        refuse(data_format, num_format);
    }
    BufferFormat format{layout.components, {}, num_format};
    std::copy_n(layout.bits, 4, format.bits);
    return format;
}

// No component crosses a dword.
void decode_components(const BufferFormat& format, const uint8_t* source, uint32_t values[4]) {
    uint32_t words[4] = {};
    std::memcpy(words, source, element_bytes(format));
    unsigned at = 0;
    for (int i = 0; i < format.components; ++i) {
        const unsigned bits = format.bits[i];
        values[i] = decode_one(format.num_format, words[at / 32] >> (at % 32) & low_bits(bits), bits);
        at += bits;
    }
}

void encode_components(const BufferFormat& format, const uint32_t values[4], uint8_t* target) {
    uint32_t words[4] = {};
    unsigned at = 0;
    for (int i = 0; i < format.components; ++i) {
        const unsigned bits = format.bits[i];
        words[at / 32] |= (encode_one(format.num_format, values[i], bits) & low_bits(bits)) << (at % 32);
        at += bits;
    }
    std::memcpy(target, words, element_bytes(format));
}

}  // namespace asmevo::emulator
