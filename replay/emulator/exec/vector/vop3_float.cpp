// VOP3-only float operations: fused multiply-add, three-source minimum and maximum, f64 arithmetic, scaling.
#include "exec/vector/float_bits.h"
#include "exec/vector/tables.h"
#include "exec/vector/trig_preop.h"

namespace asmevo::emulator {

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

constexpr OpInfo kSingle[] = {
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
        lanes<[](LaneEnv env, uint32_t a, uint32_t b, uint32_t c) {
            return min3_float(env, a, b, c);
        }>),
    row("v_max3_f32", 0x1d3, kF32, {kF32, kF32, kF32},
        lanes<[](LaneEnv env, uint32_t a, uint32_t b, uint32_t c) {
            return max3_float(env, a, b, c);
        }>),
    row("v_med3_f32", 0x1d6, kF32, {kF32, kF32, kF32},
        lanes<[](LaneEnv env, uint32_t a, uint32_t b, uint32_t c) {
            return med3_float(env, a, b, c);
        }>),
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

// The operations that GFX9 added keep the other half of the destination; the older ("legacy") ones zero it.
constexpr OpInfo kHalf[] = {
    row("v_fma_legacy_f16", 0x1ee, kF16, {kF16, kF16, kF16},
        lanes<[](F16 a, F16 b, F16 c) -> F16 { return fma_for_f16(a, b, c); }>),
    row("v_fma_f16", 0x206, kF16, {kF16, kF16, kF16},
        lanes<[](F16 a, F16 b, F16 c) -> F16 { return fma_for_f16(a, b, c); }, kKeepsHigh>),
    row("v_min3_f16", 0x1f4, kF16, {kF16, kF16, kF16},
        lanes<[](LaneEnv env, uint16_t a, uint16_t b, uint16_t c) {
            return min3_float(env, a, b, c);
        }, kKeepsHigh>),
    row("v_max3_f16", 0x1f7, kF16, {kF16, kF16, kF16},
        lanes<[](LaneEnv env, uint16_t a, uint16_t b, uint16_t c) {
            return max3_float(env, a, b, c);
        }, kKeepsHigh>),
    row("v_med3_f16", 0x1fa, kF16, {kF16, kF16, kF16},
        lanes<[](LaneEnv env, uint16_t a, uint16_t b, uint16_t c) {
            return med3_float(env, a, b, c);
        }, kKeepsHigh>),
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

}  // namespace asmevo::emulator
