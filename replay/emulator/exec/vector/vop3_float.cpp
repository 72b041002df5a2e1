// VOP3-only float operations: fused multiply-add, three-source minimum and maximum, f64 arithmetic, scaling.
#include "exec/vector/float_bits.h"
#include "exec/vector/tables.h"
#include "exec/vector/trig_preop.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

namespace {

using enum Type;

constexpr OpInfo row(const char* name, uint16_t opcode, Type dst, std::initializer_list<Type> sources,
                     Handler run, TargetMask targets = kAllTargets) {
    return vector_row(name, Encoding::kVop3, opcode, dst, sources, run, kNoFlags, targets);
}

enum class Axis { kX, kY, kZ };

constexpr Axis major_axis(float x, float y, float z) {
    const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
    if (az >= ax && az >= ay) {
        return Axis::kZ;
    }
    return ay >= ax ? Axis::kY : Axis::kX;
}

constexpr float cube_face(float x, float y, float z) {
    switch (major_axis(x, y, z)) {
        case Axis::kZ: return z < 0 ? 5 : 4;
        case Axis::kY: return y < 0 ? 3 : 2;
        default: return x < 0 ? 1 : 0;
    }
}

constexpr float cube_s(float x, float y, float z) {
    switch (major_axis(x, y, z)) {
        case Axis::kZ: return z < 0 ? -x : x;
        case Axis::kY: return x;
        default: return x < 0 ? z : -z;
    }
}

constexpr float cube_t(float x, float y, float z) {
    return major_axis(x, y, z) == Axis::kY ? (y < 0 ? -z : z) : -y;
}

constexpr float cube_major(float x, float y, float z) {
    switch (major_axis(x, y, z)) {
        case Axis::kZ: return 2 * z;
        case Axis::kY: return 2 * y;
        default: return 2 * x;
    }
}

// Three-source minimum, maximum and median, in steps of two sources: one loop over all three is more than GCC
// vectorises.
template <typename U>
struct ThreeSources {
    Scratch scratch[3];
    Source source[3];
    LaneEnv env;

    ThreeSources(const Wave& wave, const Inst& inst) : env{wave.mode} {
        for (int i = 0; i < 3; ++i) {
            source[i] = fetch<kPlain>(wave, inst, i, scratch[i]);
        }
    }

    static constexpr auto kMin = [](LaneEnv e, U a, U b) { return min_float(e, a, b); };
    static constexpr auto kMax = [](LaneEnv e, U a, U b) { return max_float(e, a, b); };

    template <auto F>
    void two(int i, int j, detail::Result& result) const {
        const Source pair[2] = {source[i], source[j]};
        detail::compute<F>(pair, result, env);
    }

    template <auto F>
    void all(detail::Result& result) const {
        detail::Result first;
        two<F>(0, 1, first);
        const Source pair[2] = {{first.low, nullptr}, source[2]};
        detail::compute<F>(pair, result, env);
    }
};

// The operations that GFX9 added keep the other half of the destination; the older ("legacy") ones zero it.
template <typename U>
constexpr unsigned kStoreOptions = sizeof(U) == 2 ? kKeepsHigh : kPlain;

template <typename U>
void minimum_of_three(Wave& wave, const Inst& inst) {
    const ThreeSources<U> sources(wave, inst);
    detail::Result result;
    sources.template all<ThreeSources<U>::kMin>(result);
    detail::store<U, kStoreOptions<U>>(wave, inst, result);
}

template <typename U>
void maximum_of_three(Wave& wave, const Inst& inst) {
    const ThreeSources<U> sources(wave, inst);
    detail::Result result;
    sources.template all<ThreeSources<U>::kMax>(result);
    detail::store<U, kStoreOptions<U>>(wave, inst, result);
}

// The larger of the two that are not the largest; the minimum if there is a NaN (ISA, V_MED3_F32).
template <typename U>
void median_of_three(Wave& wave, const Inst& inst) {
    constexpr auto kMax = ThreeSources<U>::kMax;
    const ThreeSources<U> sources(wave, inst);
    detail::Result largest, smallest, ab, ac, bc, result;
    sources.template all<kMax>(largest);
    sources.template all<ThreeSources<U>::kMin>(smallest);
    sources.template two<kMax>(0, 1, ab);
    sources.template two<kMax>(0, 2, ac);
    sources.template two<kMax>(1, 2, bc);
    for (int lane = 0; lane < kLanes; ++lane) {
        const U a = static_cast<U>(sources.source[0].low[lane]);
        const U b = static_cast<U>(sources.source[1].low[lane]);
        const U c = static_cast<U>(sources.source[2].low[lane]);
        const U top = static_cast<U>(largest.low[lane]);
        uint32_t median = equal_values(top, b) ? ac.low[lane] : ab.low[lane];
        median = equal_values(top, a) ? bc.low[lane] : median;
        result.low[lane] = is_nan(a) || is_nan(b) || is_nan(c) ? smallest.low[lane] : median;
    }
    detail::store<U, kStoreOptions<U>>(wave, inst, result);
}

constexpr OpInfo kSingle[] = {
    row("v_mad_legacy_f32", 0x1c0, kF32, {kF32, kF32, kF32}, lanes<[](float a, float b, float c) {
            const float x = flushed(a), y = flushed(b);
            return flushed((x == 0 || y == 0 ? 0.0f : flushed(x * y)) + flushed(c));
        }>, kGfx90aBit),
    row("v_mad_f32", 0x1c1, kF32, {kF32, kF32, kF32},
        lanes<[](float a, float b, float c) { return mad_flushing(a, b, c); }>, kGfx90aBit),
    row("v_cubeid_f32", 0x1c4, kF32, {kF32, kF32, kF32},
        lanes<[](float x, float y, float z) { return cube_face(x, y, z); }>),
    row("v_cubesc_f32", 0x1c5, kF32, {kF32, kF32, kF32},
        lanes<[](float x, float y, float z) { return cube_s(x, y, z); }>),
    row("v_cubetc_f32", 0x1c6, kF32, {kF32, kF32, kF32},
        lanes<[](float x, float y, float z) { return cube_t(x, y, z); }>),
    row("v_cubema_f32", 0x1c7, kF32, {kF32, kF32, kF32},
        lanes<[](float x, float y, float z) { return cube_major(x, y, z); }>),
    row("v_fma_f32", 0x1cb, kF32, {kF32, kF32, kF32},
        lanes<[](float a, float b, float c) { return __builtin_fmaf(a, b, c); }>),
    row("v_min3_f32", 0x1d0, kF32, {kF32, kF32, kF32},
        minimum_of_three<uint32_t>),
    row("v_max3_f32", 0x1d3, kF32, {kF32, kF32, kF32},
        maximum_of_three<uint32_t>),
    row("v_med3_f32", 0x1d6, kF32, {kF32, kF32, kF32},
        median_of_three<uint32_t>),
    row("v_ldexp_f32", 0x288, kF32, {kF32, kB32},
        lanes<[](float a, int32_t exponent) { return scale_f32(a, exponent); }>),
    row("v_mul_legacy_f32", 0x2a1, kF32, {kF32, kF32},
        lanes<[](float a, float b) { return a == 0 || b == 0 ? 0.0f : a * b; }>),
    row("v_minimum3_f32", 0x2a8, kF32, {kF32, kF32, kF32},
        lanes<[](uint32_t a, uint32_t b, uint32_t c) {
            return minimum_float(minimum_float(a, b), c);
        }>, kGfx950Bit),
    row("v_maximum3_f32", 0x2a9, kF32, {kF32, kF32, kF32},
        lanes<[](uint32_t a, uint32_t b, uint32_t c) {
            return maximum_float(maximum_float(a, b), c);
        }>, kGfx950Bit),
};

constexpr OpInfo kHalf[] = {
    approximate(row("v_mad_legacy_f16", 0x1ea, kF16, {kF16, kF16, kF16},
                    lanes<[](F16 a, F16 b, F16 c) { return mad_flushing_f16(a, b, c); }>), kMadF16Note),
    approximate(row("v_mad_f16", 0x203, kF16, {kF16, kF16, kF16},
                    lanes<[](F16 a, F16 b, F16 c) { return mad_flushing_f16(a, b, c); }, kKeepsHigh>), kMadF16Note),
    row("v_fma_legacy_f16", 0x1ee, kF16, {kF16, kF16, kF16},
        lanes<[](F16 a, F16 b, F16 c) -> F16 { return fma_for_f16(a, b, c); }>),
    row("v_fma_f16", 0x206, kF16, {kF16, kF16, kF16},
        lanes<[](F16 a, F16 b, F16 c) -> F16 { return fma_for_f16(a, b, c); }, kKeepsHigh>),
    row("v_min3_f16", 0x1f4, kF16, {kF16, kF16, kF16},
        minimum_of_three<uint16_t>),
    row("v_max3_f16", 0x1f7, kF16, {kF16, kF16, kF16},
        maximum_of_three<uint16_t>),
    row("v_med3_f16", 0x1fa, kF16, {kF16, kF16, kF16},
        median_of_three<uint16_t>),
};

constexpr OpInfo kDouble[] = {
    row("v_fma_f64", 0x1cc, kF64, {kF64, kF64, kF64},
        lanes<[](double a, double b, double c) { return __builtin_fma(a, b, c); }>),
    row("v_add_f64", 0x280, kF64, {kF64, kF64}, lanes<[](double a, double b) { return a + b; }>),
    row("v_mul_f64", 0x281, kF64, {kF64, kF64}, lanes<[](double a, double b) { return a * b; }>),
    row("v_min_f64", 0x282, kF64, {kF64, kF64}, lanes<[](LaneEnv env, uint64_t a, uint64_t b) {
            return min_float(env, a, b);
        }>),
    row("v_max_f64", 0x283, kF64, {kF64, kF64}, lanes<[](LaneEnv env, uint64_t a, uint64_t b) {
            return max_float(env, a, b);
        }>),
    row("v_ldexp_f64", 0x284, kF64, {kF64, kB32},
        lanes<[](double a, int32_t exponent) { return std::scalbn(a, exponent); }>),
    row("v_trig_preop_f64", 0x292, kF64, {kF64, kB32},
        lanes<[](double a, uint32_t segment) { return trig_preop(a, segment); }, kRoundsItself>),
};

}  // namespace

std::span<const OpInfo> vop3_float_ops() {
    static const std::vector<OpInfo> table = join_tables({kSingle, kHalf, kDouble});
    return table;
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
