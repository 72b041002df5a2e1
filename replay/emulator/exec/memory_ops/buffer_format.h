// Conversion between memory and registers for buffer_*_format_* and tbuffer_*_format_*.
#pragma once

#include <cstdint>

namespace asmevo::emulator {

/// BUF_DATA_FORMAT and BUF_NUM_FORMAT codes (the same in V# word 3 and in MTBUF's dfmt/nfmt).
struct BufferFormat {
    uint8_t components;
    uint8_t component_bytes;
    uint8_t num_format;
};

/// Throws Fault for a format that has no conversion here (the packed 10/11/2-bit ones, and reserved
/// codes).
BufferFormat buffer_format(uint8_t data_format, uint8_t num_format);

constexpr uint32_t element_bytes(const BufferFormat& format) {
    return static_cast<uint32_t>(format.components) * format.component_bytes;
}

/// Register bits (f32, or an integer for the int formats) of the component stored at `source`.
uint32_t decode_component(const BufferFormat& format, const uint8_t* source);

/// Writes the component that `value` (register bits as above) stands for.
void encode_component(const BufferFormat& format, uint32_t value, uint8_t* target);

constexpr bool is_integer(const BufferFormat& format) {
    return format.num_format == 4 || format.num_format == 5;
}

}  // namespace asmevo::emulator
