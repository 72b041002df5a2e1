// The CDNA3 dot product in scalar doubles, with every special value: what mfma_dot.cpp falls back
// to.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "exec/vector/mfma.h"

namespace asmevo::emulator {
namespace {

struct Sum {
    double value;  // in units of 2^(exponent - 24), or infinite, or NaN
    int exponent;
};

struct Term {
    double product;
    int exponent;
};

constexpr int kNothing = -999;

Term product_at(const DotInputs& in, int lane, int k, bool pair) {
    const int b_row = in.b_row != nullptr ? in.b_row[k] : k;
    const int a_at = k * in.a_stride + (in.a_is_uniform ? 0 : lane),
              b_at = b_row * in.b_stride + lane;
    double product = static_cast<double>(in.a_value[a_at]) * static_cast<double>(in.b_value[b_at]);
    int exponent = in.a_exponent[a_at] + in.b_exponent[b_at];
    if (product == 0) {
        exponent = kNothing;
    } else if (!pair && std::isfinite(product)) {
        // A product of 2^128 or more is an infinity; it counts by its unnormalised exponent
        // (MMA-Sim, tr_fdpa).
        const int carried = std::abs(product) >= std::ldexp(1.0, exponent + 1) ? 1 : 0;
        if (exponent + carried >= 128) {
            product = std::copysign(std::numeric_limits<double>::infinity(), product);
        }
    }
    return {product, exponent};
}

Sum sum_terms(const DotInputs& in, int lane, int first, int end, int step, bool pair) {
    Sum out{0.0, kNothing};
    for (int k = first; k < end; k += step) {
        out.exponent = std::max(out.exponent, product_at(in, lane, k, pair).exponent);
    }
    for (int k = first; k < end; k += step) {
        out.value +=
            std::trunc(std::ldexp(product_at(in, lane, k, pair).product, 24 - out.exponent));
    }
    return out;
}

int float_exponent(float value) {
    const int raw = static_cast<int>(std::bit_cast<uint32_t>(value) >> 23 & 255);
    return std::max(raw, 1) - 127;
}

float round_once(double total, int unit_exponent) {
    if (!std::isfinite(total)) {
        return static_cast<float>(total);
    }
    const int natural = total == 0 ? -126 : std::ilogb(total) + unit_exponent;
    const int last_bit = std::max(natural, -126) - 31;
    return static_cast<float>(
        std::ldexp(std::floor(std::ldexp(total, unit_exponent - last_bit)), last_bit));
}

float join(const Sum& dot, float c, bool pair) {
    const int c_exponent = float_exponent(c);
    const int larger = std::max(dot.exponent, c_exponent);
    const double aligned_dot = std::floor(std::ldexp(dot.value, 8 + dot.exponent - larger));
    double aligned_c = std::floor(std::ldexp(static_cast<double>(c), 24 - larger));
    if (pair && c_exponent < larger - 25) {
        aligned_c = 0;
    }
    return round_once(aligned_dot + aligned_c * 256.0, larger - 32);
}

}  // namespace

float dot_reference(const DotInputs& in, int lane, float c, bool pair) {
    for (int first = 0; first < in.k; first += in.group) {
        const int end = std::min(first + in.group, in.k);
        Sum dot;
        if (pair) {
            const Sum even = sum_terms(in, lane, first, end, 2, true);
            const Sum odd = sum_terms(in, lane, first + 1, end, 2, true);
            dot.exponent = std::max(even.exponent, odd.exponent);
            dot.value = std::floor(std::ldexp(even.value, even.exponent - dot.exponent)) +
                        std::floor(std::ldexp(odd.value, odd.exponent - dot.exponent));
        } else {
            dot = sum_terms(in, lane, first, end, 1, false);
        }
        c = join(dot, c, pair);
    }
    return std::isnan(c) ? std::numeric_limits<float>::quiet_NaN() : c;
}

}  // namespace asmevo::emulator
