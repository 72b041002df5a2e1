// Conversion between memory and registers for buffer_*_format_* and tbuffer_*_format_*.
#pragma once

#include <cstdint>

namespace asmevo::emulator {

/// BUF_DATA_FORMAT and BUF_NUM_FORMAT codes (the same in V# word 3 and in MTBUF's dfmt/nfmt).
struct BufferFormat {
    uint8_t components;
    uint8_t bits[4];  // of each component, from the lowest bit of the element on
    uint8_t num_format;
};

/// Throws Fault for a reserved code or a pair of codes that no element has.
BufferFormat buffer_format(uint8_t data_format, uint8_t num_format);

constexpr uint32_t element_bytes(const BufferFormat& format) {
    uint32_t bits = 0;
    for (int i = 0; i < format.components; ++i) {
        bits += format.bits[i];
    }
    return bits / 8;
}

/// Register bits (f32, or an integer for the int formats) of each component of the element at `source`.
void decode_components(const BufferFormat& format, const uint8_t* source, uint32_t values[4]);

/// Writes the element whose components `values` (register bits as above) stand for.
void encode_components(const BufferFormat& format, const uint32_t values[4], uint8_t* target);

constexpr bool is_integer(const BufferFormat& format) {
    return format.num_format == 4 || format.num_format == 5;
}

}  // namespace asmevo::emulator
