// Operands of matrix instructions: bits out of registers, numbers out of bits.
#include <immintrin.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "exec/vector/mfma.h"

namespace asmevo::emulator {
namespace {

/// A floating-point format of at most eight bits. FNUZ: one NaN at the sign bit alone, no infinity,
/// no -0.
struct SmallFormat {
    int exponent_bits, mantissa_bits, bias;
    enum Specials : uint8_t { kNone, kFnuz, kNanOnly, kIeee } specials;
};

constexpr SmallFormat kFp8Fnuz{4, 3, 8, SmallFormat::kFnuz}, kBf8Fnuz{5, 2, 16, SmallFormat::kFnuz};
constexpr SmallFormat kFp8Ocp{4, 3, 7, SmallFormat::kNanOnly},
    kBf8Ocp{5, 2, 15, SmallFormat::kIeee};
constexpr SmallFormat kFp6Format{2, 3, 1, SmallFormat::kNone},
    kBf6Format{3, 2, 3, SmallFormat::kNone};
constexpr SmallFormat kFp4Format{2, 1, 1, SmallFormat::kNone};

struct SmallTable {
    std::array<float, 256> value;
    std::array<int32_t, 256> exponent;
    std::array<uint8_t, 256> is_special;
};

bool is_nan(const SmallFormat& format, unsigned code, int exponent, int mantissa) {
    const int top = (1 << format.exponent_bits) - 1;
    switch (format.specials) {
        case SmallFormat::kFnuz:
            return code == 0x80;
        case SmallFormat::kNanOnly:
            return exponent == top && mantissa == (1 << format.mantissa_bits) - 1;
        case SmallFormat::kIeee:
            return exponent == top && mantissa != 0;
        default:
            return false;
    }
}

SmallTable make_table(const SmallFormat& format) {
    SmallTable table{};
    const int width = 1 + format.exponent_bits + format.mantissa_bits;
    for (unsigned code = 0; code < 1u << width; ++code) {
        const int mantissa = static_cast<int>(code & ((1u << format.mantissa_bits) - 1));
        const int exponent =
            static_cast<int>(code >> format.mantissa_bits & ((1u << format.exponent_bits) - 1));
        const float sign = (code >> (width - 1) & 1) != 0 ? -1.0f : 1.0f;
        const int real_exponent = (exponent > 0 ? exponent : 1) - format.bias;
        const int significand = mantissa + (exponent > 0 ? 1 << format.mantissa_bits : 0);
        table.value[code] = sign * std::ldexp(static_cast<float>(significand),
                                              real_exponent - format.mantissa_bits);
        table.exponent[code] = significand == 0 ? kZeroExponent : real_exponent;
        const bool is_infinite = format.specials == SmallFormat::kIeee &&
                                 exponent == (1 << format.exponent_bits) - 1 && mantissa == 0;
        if (is_infinite) {
            table.value[code] = sign * std::numeric_limits<float>::infinity();
        } else if (is_nan(format, code, exponent, mantissa)) {
            table.value[code] = std::numeric_limits<float>::quiet_NaN();
        }
        table.is_special[code] = !std::isfinite(table.value[code]);
    }
    return table;
}

const SmallTable& table_of(Element element, Target target) {
    static const SmallTable fnuz[2] = {make_table(kFp8Fnuz), make_table(kBf8Fnuz)};
    static const SmallTable ocp[2] = {make_table(kFp8Ocp), make_table(kBf8Ocp)};
    static const SmallTable fp6 = make_table(kFp6Format), bf6 = make_table(kBf6Format),
                            fp4 = make_table(kFp4Format);
    switch (element) {
        case Element::kFp6:
            return fp6;
        case Element::kBf6:
            return bf6;
        case Element::kFp4:
            return fp4;
        default: {
            const int which = element == Element::kBf8 ? 1 : 0;
            return target == Target::kGfx950 ? ocp[which] : fnuz[which];
        }
    }
}

void decode_small(const SmallTable& table, const uint32_t bits[kLanes], float* value,
                  int32_t* exponent, bool& has_special) {
    uint8_t special = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        value[lane] = table.value[bits[lane]];
        exponent[lane] = table.exponent[bits[lane]];
        special |= table.is_special[bits[lane]];
    }
    has_special |= special != 0;
}

/// f32 patterns: bf16 shifted up, xf32 with its low 13 bits cut off.
void decode_single(const uint32_t* bits, unsigned shift, uint32_t mask, float* value,
                   int32_t* exponent, bool& has_special) {
    int32_t largest = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t pattern = bits[lane] << shift & mask;
        value[lane] = std::bit_cast<float>(pattern);
        const int32_t field = static_cast<int32_t>(pattern >> 23 & 255);
        largest = field > largest ? field : largest;
        const int32_t real = (field > 1 ? field : 1) - 127;
        exponent[lane] = (pattern & 0x7fffffffu) == 0 ? kZeroExponent : real;
    }
    has_special |= largest == 255;
}

void decode_half_values(const uint32_t* bits, float* value) {
    for (int lane = 0; lane < kLanes; lane += 8) {
        const __m256i wide = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bits + lane));
        const __m128i packed =
            _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
        _mm256_storeu_ps(value + lane, _mm256_cvtph_ps(packed));
    }
}

void decode_half(const uint32_t* bits, float* value, int32_t* exponent, bool& has_special) {
    int32_t largest = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
        const int32_t field = static_cast<int32_t>(bits[lane] >> 10 & 31);
        largest = field > largest ? field : largest;
        const int32_t real = (field > 1 ? field : 1) - 15;
        exponent[lane] = (bits[lane] & 0x7fff) == 0 ? kZeroExponent : real;
    }
    decode_half_values(bits, value);
    has_special |= largest == 31;
}

}  // namespace

void extract_element(const Wave& wave, uint16_t base, Element element, int index,
                     uint32_t out[kLanes]) {
    const unsigned width = static_cast<unsigned>(element_bits(element));
    const unsigned start = static_cast<unsigned>(index) * width, shift = start % 32;
    const uint32_t mask = width == 32 ? ~0u : (1u << width) - 1;
    const uint32_t* low = wave.lanes(static_cast<uint16_t>(base + start / 32));
    if (shift + width <= 32) {
        for (int lane = 0; lane < kLanes; ++lane) {
            out[lane] = low[lane] >> shift & mask;
        }
        return;
    }
    const uint32_t* high = wave.lanes(static_cast<uint16_t>(base + start / 32 + 1));
    for (int lane = 0; lane < kLanes; ++lane) {
        out[lane] = (low[lane] >> shift | high[lane] << (32 - shift)) & mask;
    }
}

void decode_elements(Element element, Target target, const uint32_t bits[kLanes], float* value,
                     int32_t* exponent, bool& has_special) {
    switch (element) {
        case Element::kF32:
            decode_single(bits, 0, ~0u, value, exponent, has_special);
            return;
        case Element::kXf32:
            decode_single(bits, 0, ~0x1fffu, value, exponent, has_special);
            return;
        case Element::kBf16:
            decode_single(bits, 16, ~0u, value, exponent, has_special);
            return;
        case Element::kF16:
            decode_half(bits, value, exponent, has_special);
            return;
        default:
            decode_small(table_of(element, target), bits, value, exponent, has_special);
            return;
    }
}

void decode_values(Element element, Target target, const uint32_t bits[kLanes], float* value) {
    const auto shifted = [&](int shift, uint32_t mask) {
        for (int lane = 0; lane < kLanes; ++lane) {
            value[lane] = std::bit_cast<float>(bits[lane] << shift & mask);
        }
    };
    switch (element) {
        case Element::kF32:
            shifted(0, ~0u);
            return;
        case Element::kXf32:
            shifted(0, ~0x1fffu);
            return;
        case Element::kBf16:
            shifted(16, ~0u);
            return;
        case Element::kF16:
            decode_half_values(bits, value);
            return;
        default: {
            const SmallTable& table = table_of(element, target);
            for (int lane = 0; lane < kLanes; lane += 8) {
                const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bits + lane));
                _mm256_storeu_ps(value + lane, _mm256_i32gather_ps(table.value.data(), codes, 4));
            }
        }
    }
}

}  // namespace asmevo::emulator
