// The sums of products inside matrix instructions, bit for bit as measured on MI300X and MI200 by
// others (MMA-Sim, arXiv 2511.10909; the algorithms are restated in the reference page cdna3_facts,
// section 6.3).
#include <immintrin.h>

#include <algorithm>
#include <cmath>

#include "exec/vector/mfma.h"

namespace asmevo::emulator {
namespace {

// Outside this window of group exponents f32 products could round, underflow or overflow: the
// scalar model decides.
constexpr int kLowExponent = -100, kHighExponent = 125;
constexpr int kNoExponent = -500;  // below: every product of the group is zero

struct Group {
    __m256i sum;  // 24 fraction bits relative to 2^exponent
    __m256i exponent;
};

/// How a loop over k reaches its rows, for eight lanes at a time: fixed at compile time, for the
/// sake of the inner loops.
template <bool Uniform, bool Indexed>
struct Rows {
    explicit Rows(const DotInputs& inputs)
        : in(inputs),
          a_value(in.a_value),
          b_value(in.b_value),
          a_exponent(in.a_exponent),
          b_exponent(in.b_exponent) {}

    int b_offset(int k) const { return (Indexed ? in.b_row[k] : k) * in.b_stride; }
    __m256 a(int k) const {
        const float* row = a_value + k * in.a_stride;
        return Uniform ? _mm256_broadcast_ss(row) : _mm256_loadu_ps(row);
    }
    __m256 b(int k) const { return _mm256_loadu_ps(b_value + b_offset(k)); }
    __m256i exponent(int k) const {
        const int32_t* row = a_exponent + k * in.a_stride;
        const __m256i a = Uniform ? _mm256_set1_epi32(*row)
                                  : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
        const int32_t* other = b_exponent + b_offset(k);
        return _mm256_add_epi32(a, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(other)));
    }
    void next_lanes() {
        b_value += 8;
        b_exponent += 8;
        if (!Uniform) {
            a_value += 8;
            a_exponent += 8;
        }
    }

    const DotInputs& in;
    const float *a_value, *b_value;
    const int32_t *a_exponent, *b_exponent;
};

/// `Count` products k = first, first + Step, …, each truncated toward zero at 2^-24 of the largest
/// exponent. The scaling by a power of two is exact, so a plain conversion truncates the exact
/// product.
template <int Count, int Step, typename R>
[[gnu::always_inline]] inline Group sum_group(const R& rows, int first) {
    __m256i exponent = _mm256_set1_epi32(2 * kZeroExponent);
    for (int i = 0; i < Count; ++i) {
        exponent = _mm256_max_epi32(exponent, rows.exponent(first + i * Step));
    }
    const __m256i clamped =
        _mm256_min_epi32(_mm256_max_epi32(exponent, _mm256_set1_epi32(kLowExponent)),
                         _mm256_set1_epi32(kHighExponent));
    const __m256 scale = _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_sub_epi32(_mm256_set1_epi32(24 + 127), clamped), 23));
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < Count; ++i) {
        const int k = first + i * Step;
        const __m256 product = _mm256_mul_ps(rows.a(k), rows.b(k));
        sum = _mm256_add_epi32(sum, _mm256_cvttps_epi32(_mm256_mul_ps(product, scale)));
    }
    return {sum, exponent};
}

/// Lanes whose group the f32 products above may not represent.
[[gnu::always_inline]] inline __m256i outside_window(__m256i exponent) {
    const __m256i nonzero = _mm256_cmpgt_epi32(exponent, _mm256_set1_epi32(kNoExponent));
    const __m256i low = _mm256_cmpgt_epi32(_mm256_set1_epi32(kLowExponent), exponent);
    const __m256i high = _mm256_cmpgt_epi32(exponent, _mm256_set1_epi32(kHighExponent));
    return _mm256_or_si256(_mm256_and_si256(nonzero, low), high);
}

[[gnu::always_inline]] inline __m256d power_of_two(__m256i exponent64) {
    return _mm256_castsi256_pd(
        _mm256_slli_epi64(_mm256_add_epi64(exponent64, _mm256_set1_epi64x(1023)), 52));
}
[[gnu::always_inline]] inline __m256d power_of_two(__m128i exponent32) {
    return power_of_two(_mm256_cvtepi32_epi64(exponent32));
}

/// Four lanes of: align group sum (31 fraction bits and a guard) and accumulator (24) to the larger
/// exponent, floor both, add, normalise, floor at 31 fraction bits, round to f32. All in exact
/// doubles.
[[gnu::always_inline]] inline __m128 round_quad(__m128i sum, __m128i exponent, __m128 c,
                                                __m128i c_exponent, __m128 c_keep) {
    const __m128i larger = _mm_max_epi32(exponent, c_exponent);
    const __m256d dot = _mm256_floor_pd(_mm256_mul_pd(
        _mm256_cvtepi32_pd(sum),
        power_of_two(_mm_add_epi32(_mm_sub_epi32(exponent, larger), _mm_set1_epi32(8)))));
    const __m256d aligned_c = _mm256_floor_pd(
        _mm256_mul_pd(_mm256_cvtps_pd(c), power_of_two(_mm_sub_epi32(_mm_set1_epi32(24), larger))));
    const __m256d kept_c = _mm256_and_pd(
        aligned_c, _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm_castps_si128(c_keep))));
    const __m256d total = _mm256_add_pd(dot, _mm256_mul_pd(kept_c, _mm256_set1_pd(256.0)));
    // Exponent of the total, which counts units of 2^(larger - 32); f32 denormals start at 2^-126.
    const __m256i raw = _mm256_srli_epi64(_mm256_slli_epi64(_mm256_castpd_si256(total), 1), 53);
    const __m256i unit = _mm256_sub_epi64(_mm256_cvtepi32_epi64(larger), _mm256_set1_epi64x(32));
    const __m256i natural = _mm256_add_epi64(_mm256_sub_epi64(raw, _mm256_set1_epi64x(1023)), unit);
    const __m256i smallest = _mm256_set1_epi64x(-126);
    const __m256i result_exponent =
        _mm256_blendv_epi8(smallest, natural, _mm256_cmpgt_epi64(natural, smallest));
    const __m256i last_bit = _mm256_sub_epi64(result_exponent, _mm256_set1_epi64x(31));
    const __m256d floored =
        _mm256_floor_pd(_mm256_mul_pd(total, power_of_two(_mm256_sub_epi64(unit, last_bit))));
    return _mm256_cvtpd_ps(_mm256_mul_pd(floored, power_of_two(last_bit)));
}

/// Exponent of f32 lanes; zero and denormals count as 2^-126.
[[gnu::always_inline]] inline __m256i float_exponent(__m256 value) {
    const __m256i raw =
        _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(value), 23), _mm256_set1_epi32(255));
    return _mm256_sub_epi32(_mm256_max_epi32(raw, _mm256_set1_epi32(1)), _mm256_set1_epi32(127));
}

/// Joins a group and the accumulator. `drop_small`: an accumulator more than 25 binades below does
/// not count.
[[gnu::always_inline]] inline __m256 accumulate(__m256i sum, __m256i exponent, __m256 c,
                                                bool drop_small) {
    // Far below the smallest accumulator exponent the exact value no longer matters, and 2^-400 is
    // still a double.
    exponent = _mm256_max_epi32(exponent, _mm256_set1_epi32(-400));
    const __m256i c_exponent = float_exponent(c);
    __m256i keep = _mm256_set1_epi32(-1);
    if (drop_small) {
        keep = _mm256_cmpgt_epi32(c_exponent, _mm256_sub_epi32(exponent, _mm256_set1_epi32(26)));
    }
    const __m256 keep_ps = _mm256_castsi256_ps(keep);
    const __m128 low = round_quad(_mm256_castsi256_si128(sum), _mm256_castsi256_si128(exponent),
                                  _mm256_castps256_ps128(c), _mm256_castsi256_si128(c_exponent),
                                  _mm256_castps256_ps128(keep_ps));
    const __m128 high =
        round_quad(_mm256_extracti128_si256(sum, 1), _mm256_extracti128_si256(exponent, 1),
                   _mm256_extractf128_ps(c, 1), _mm256_extracti128_si256(c_exponent, 1),
                   _mm256_extractf128_ps(keep_ps, 1));
    return _mm256_set_m128(high, low);
}

/// Even and odd sums aligned by floor at 24 bits to the larger of their exponents.
[[gnu::always_inline]] inline Group join_pair(const Group& even, const Group& odd) {
    const __m256i exponent = _mm256_max_epi32(even.exponent, odd.exponent),
                  most = _mm256_set1_epi32(31);
    const __m256i even_shift = _mm256_min_epi32(_mm256_sub_epi32(exponent, even.exponent), most);
    const __m256i odd_shift = _mm256_min_epi32(_mm256_sub_epi32(exponent, odd.exponent), most);
    return {_mm256_add_epi32(_mm256_srav_epi32(even.sum, even_shift),
                             _mm256_srav_epi32(odd.sum, odd_shift)),
            exponent};
}

/// Eight lanes from `lane` on. `Count` products a sum; `Pair` has two sums, of even and of odd k,
/// in a group.
template <bool Pair, int Count, typename R>
inline void dot_lanes(const R& rows, int lane, const float* c, float* d) {
    constexpr int group_size = Pair ? 2 * Count : Count;
    const DotInputs& in = rows.in;
    __m256 accumulator = _mm256_loadu_ps(c + lane);
    __m256i doubtful = _mm256_setzero_si256();
    for (int first = 0; first < in.k; first += group_size) {
        Group group;
        if constexpr (Pair) {
            group =
                join_pair(sum_group<Count, 2>(rows, first), sum_group<Count, 2>(rows, first + 1));
        } else {
            group = sum_group<Count, 1>(rows, first);
        }
        doubtful = _mm256_or_si256(doubtful, outside_window(group.exponent));
        accumulator = accumulate(group.sum, group.exponent, accumulator, Pair);
    }
    _mm256_storeu_ps(d + lane, accumulator);
    // A result that is not finite, or operands that are not, go through the scalar model.
    const __m256i not_finite =
        _mm256_cmpgt_epi32(float_exponent(accumulator), _mm256_set1_epi32(127));
    int scalar_lanes =
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_or_si256(doubtful, not_finite)));
    if (in.has_special) {
        scalar_lanes = 0xff;
    }
    for (; scalar_lanes != 0; scalar_lanes &= scalar_lanes - 1) {
        const int at = lane + __builtin_ctz(static_cast<unsigned>(scalar_lanes));
        d[at] = dot_reference(in, at, c[at], Pair);
    }
}

template <bool Pair, int Count, typename R>
void dot_rows(R rows, const float* c, float* d) {
    for (int lane = 0; lane < rows.in.lanes; lane += 8) {
        dot_lanes<Pair, Count>(rows, lane, c, d);
        rows.next_lanes();
    }
}

/// Chooses the loop. A group is a whole number of times in k; its sums have 4 or 8 products (K = 4
/// and xf32: 4).
template <bool Pair>
void dot(const DotInputs& in, const float* c, float* d) {
    if (in.b_row != nullptr) {
        dot_rows<Pair, 8>(Rows<true, true>(in), c, d);
    } else if (std::min(in.group, in.k) == 4) {
        in.a_is_uniform ? dot_rows<Pair, 4>(Rows<true, false>(in), c, d)
                        : dot_rows<Pair, 4>(Rows<false, false>(in), c, d);
    } else {
        dot_rows<Pair, 8>(Rows<true, false>(in), c, d);
    }
}

constexpr float kSmallestNormal = 0x1p-126f;

[[gnu::always_inline]] inline __m256 flush(__m256 value, bool keep_sign) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    const __m256 is_small =
        _mm256_cmp_ps(_mm256_andnot_ps(sign, value), _mm256_set1_ps(kSmallestNormal), _CMP_LT_OQ);
    const __m256 zero = keep_sign ? _mm256_and_ps(value, sign) : _mm256_setzero_ps();
    return _mm256_blendv_ps(value, zero, is_small);
}

[[gnu::always_inline]] inline __m256 add_flushed(__m256 a, __m256 b) {
    return flush(_mm256_add_ps(a, b), true);
}

}  // namespace

void dot_truncated(const DotInputs& in, const float* c, float* d) {
    dot<false>(in, c, d);
}
void dot_truncated_pair(const DotInputs& in, const float* c, float* d) {
    dot<true>(in, c, d);
}

/// A and B arrive with their denormals flushed to +0 (run_matrix); products and sums keep the sign
/// of what they flush.
void dot_flushed(const DotInputs& in, const float* c, float* d) {
    const auto run = [&](auto rows) {
        const auto product = [&](int k) {
            return flush(_mm256_mul_ps(rows.a(k), rows.b(k)), true);
        };
        for (int lane = 0; lane < in.lanes; lane += 8) {
            __m256 accumulator = flush(_mm256_loadu_ps(c + lane), false);
            for (int k = 0; k < in.k; k += in.group) {
                __m256 sum = add_flushed(product(k), product(k + 1));
                if (in.group == 4) {
                    sum = add_flushed(sum, add_flushed(product(k + 2), product(k + 3)));
                }
                accumulator = add_flushed(accumulator, sum);
            }
            _mm256_storeu_ps(d + lane, accumulator);
            rows.next_lanes();
        }
    };
    in.a_is_uniform ? run(Rows<true, false>(in)) : run(Rows<false, false>(in));
}

}  // namespace asmevo::emulator
