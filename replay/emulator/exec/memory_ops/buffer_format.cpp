#include "exec/memory_ops/buffer_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "exec/fault.h"
#include "exec/memory_ops/half.h"

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
    uint8_t components, component_bytes;
};

// By BUF_DATA_FORMAT code; {0, 0} has no conversion here.
constexpr Layout kLayouts[16] = {{0, 0}, {1, 1}, {1, 2}, {2, 1}, {1, 4}, {2, 2}, {0, 0}, {0, 0},
                                 {0, 0}, {0, 0}, {4, 1}, {2, 4}, {4, 2}, {3, 4}, {4, 4}, {0, 0}};

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
    switch (layout.component_bytes) {
        case 1:
            return num_format != kFloat;
        case 2:
            return true;
        default:
            return num_format == kUint || num_format == kSint || num_format == kFloat;
    }
}

uint32_t float_bits(float value) {
    return std::bit_cast<uint32_t>(value);
}

int32_t sign_extend(uint32_t raw, unsigned bits) {
    return static_cast<int32_t>(raw << (32 - bits)) >> (32 - bits);
}

uint32_t encode_normalized(float value, float low, float scale) {
    const float clamped = std::isnan(value) ? 0.0f : std::clamp(value, low, 1.0f);
    return static_cast<uint32_t>(static_cast<int32_t>(std::nearbyint(clamped * scale)));
}

uint32_t encode_scaled(float value, float low, float high) {
    const float clamped = std::isnan(value) ? 0.0f : std::clamp(value, low, high);
    return static_cast<uint32_t>(static_cast<int32_t>(clamped));
}

uint32_t encode_small(const BufferFormat& format, uint32_t value) {
    const unsigned bits = 8u * format.component_bytes;
    const uint32_t max_unsigned = (1u << bits) - 1, max_signed = max_unsigned >> 1;
    const float real = std::bit_cast<float>(value);
    switch (format.num_format) {
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
            return float_to_half(real);
    }
}

}  // namespace

BufferFormat buffer_format(uint8_t data_format, uint8_t num_format) {
    const Layout layout = kLayouts[data_format & 15];
    if (!is_supported(layout, num_format)) {
        refuse(data_format, num_format);
    }
    return {layout.components, layout.component_bytes, num_format};
}

uint32_t decode_component(const BufferFormat& format, const uint8_t* source) {
    uint32_t raw = 0;
    std::memcpy(&raw, source, format.component_bytes);
    if (format.component_bytes == 4) {
        return raw;
    }
    const unsigned bits = 8u * format.component_bytes;
    const float max_unsigned = static_cast<float>((1u << bits) - 1);
    const float max_signed = static_cast<float>((1u << (bits - 1)) - 1);
    switch (format.num_format) {
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
            return float_bits(half_to_float(raw));
    }
}

void encode_component(const BufferFormat& format, uint32_t value, uint8_t* target) {
    const uint32_t raw = format.component_bytes == 4 ? value : encode_small(format, value);
    std::memcpy(target, &raw, format.component_bytes);
}

}  // namespace asmevo::emulator
