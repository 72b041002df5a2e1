// Dot products of packed sources: VOP3P (v_dot*) and the accumulating VOP2 forms (v_dot*c).
#include "exec/vector/integer.h"
#include "exec/vector/lanes.h"
#include "exec/vector/tables.h"

namespace asmevo::emulator {

namespace {

using enum Type;

template <int Bits, bool Signed>
constexpr int64_t element(uint32_t packed, int index) {
    const uint32_t top = packed << (32 - Bits * (index + 1));
    return Signed ? int64_t{static_cast<int32_t>(top) >> (32 - Bits)} : int64_t{top >> (32 - Bits)};
}

// Exact sum of products; 64 bits are more than enough.
template <int Bits, bool Signed>
constexpr int64_t exact_dot(uint32_t a, uint32_t b) {
    int64_t sum = 0;
    for (int i = 0; i < 32 / Bits; ++i) {
        sum += element<Bits, Signed>(a, i) * element<Bits, Signed>(b, i);
    }
    return sum;
}

template <int Bits, bool Signed>
constexpr auto dot = [](uint32_t a, uint32_t b, uint32_t c) {
    return static_cast<uint32_t>(exact_dot<Bits, Signed>(a, b)) + c;
};

template <int Bits>
constexpr auto signed_dot_sat = [](uint32_t a, uint32_t b, int32_t c) {
    return saturate<int32_t>(exact_dot<Bits, true>(a, b) + c);
};

template <int Bits>
constexpr auto unsigned_dot_sat = [](uint32_t a, uint32_t b, uint32_t c) {
    return saturate<uint32_t>(exact_dot<Bits, false>(a, b) + c);
};

// The products of f16 (and, in range, bf16) are exact in f32, so each step rounds once, in the ISA's order.
constexpr auto dot2_f16 = [](uint32_t a, uint32_t b, float c) -> float {
    const auto half = [](uint32_t bits) { return f16_to_f32(static_cast<uint16_t>(bits)); };
    const float sum = c + half(a) * half(b);
    return sum + half(a >> 16) * half(b >> 16);
};

constexpr auto dot2_bf16 = [](uint32_t a, uint32_t b, float c) -> float {
    const auto half = [](uint32_t bits) { return bf16_to_f32(static_cast<uint16_t>(bits)); };
    return half(a) * half(b) + half(a >> 16) * half(b >> 16) + c;
};

// The accumulating form starts from the old value (ISA, V_DOT2C_F32_BF16).
constexpr auto dot2c_bf16 = [](uint32_t a, uint32_t b, float c) -> float {
    const auto half = [](uint32_t bits) { return bf16_to_f32(static_cast<uint16_t>(bits)); };
    const float sum = c + half(a) * half(b);
    return sum + half(a >> 16) * half(b >> 16);
};

constexpr OpInfo vop3p(const char* name, uint16_t opcode, Type dst, Type packed, Handler run,
                       TargetMask targets = kAllTargets) {
    return vector_row(name, Encoding::kVop3p, opcode, dst, {packed, packed, dst}, run, kPackedModifiers,
                      targets);
}

constexpr OpInfo vop2(const char* name, uint16_t opcode, Type dst, Type packed, Handler run,
                      TargetMask targets = kAllTargets) {
    return vector_row(name, Encoding::kVop2, opcode, dst, {packed, packed}, run, kDstIsRead, targets);
}

constexpr const char* kOrderNote =
    "adds one product at a time in the pseudocode's order; how a GPU rounds in between is not published";

constexpr OpInfo kVop3p[] = {
    approximate(vop3p("v_dot2_f32_bf16", 26, kF32, kPkBf16, lanes<dot2_bf16, kPacked>, kGfx950Bit), kOrderNote),
    approximate(vop3p("v_dot2_f32_f16", 35, kF32, kPkF16, lanes<dot2_f16, kPacked>), kOrderNote),
    vop3p("v_dot2_i32_i16", 38, kB32, kPkI16,
          clampable<dot<16, true>, signed_dot_sat<16>, kPacked>),
    vop3p("v_dot2_u32_u16", 39, kB32, kPkI16,
          clampable<dot<16, false>, unsigned_dot_sat<16>, kPacked>),
    vop3p("v_dot4_i32_i8", 40, kB32, kB32, clampable<dot<8, true>, signed_dot_sat<8>, kPacked>),
    vop3p("v_dot4_u32_u8", 41, kB32, kB32, clampable<dot<8, false>, unsigned_dot_sat<8>, kPacked>),
    vop3p("v_dot8_i32_i4", 42, kB32, kB32, clampable<dot<4, true>, signed_dot_sat<4>, kPacked>),
    vop3p("v_dot8_u32_u4", 43, kB32, kB32, clampable<dot<4, false>, unsigned_dot_sat<4>, kPacked>),
};

constexpr OpInfo kVop2[] = {
    approximate(vop2("v_dot2c_f32_bf16", 22, kF32, kPkBf16, lanes<dot2c_bf16, kAccumulates>, kGfx950Bit), kOrderNote),
    approximate(vop2("v_dot2c_f32_f16", 55, kF32, kPkF16, lanes<dot2_f16, kAccumulates>), kOrderNote),
    vop2("v_dot2c_i32_i16", 56, kB32, kPkI16,
         clampable<dot<16, true>, signed_dot_sat<16>, kAccumulates>),
    vop2("v_dot4c_i32_i8", 57, kB32, kB32, clampable<dot<8, true>, signed_dot_sat<8>, kAccumulates>),
    vop2("v_dot8c_i32_i4", 58, kB32, kB32, clampable<dot<4, true>, signed_dot_sat<4>, kAccumulates>),
};

}  // namespace

std::span<const OpInfo> vop3p_dot_ops() { return kVop3p; }
std::span<const OpInfo> vop2_dot_ops() { return kVop2; }

}  // namespace asmevo::emulator
