// VOP1: conversions between number formats. FP8 and BF8: fp8.cpp.
#include "exec/vector/convert.h"
#include "exec/vector/lanes.h"
#include "exec/vector/tables.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

namespace {

using enum Type;

constexpr OpInfo row(const char* name, uint16_t opcode, Type dst, Type source, Handler run,
                     TargetMask targets = kAllTargets) {
    return vector_row(name, Encoding::kVop1, opcode, dst, {source}, run, kNoFlags, targets);
}

template <int Byte>
constexpr auto byte_to_float =
    [](uint32_t a) { return static_cast<float>(static_cast<int32_t>(a >> (8 * Byte) & 0xff)); };

constexpr OpInfo kTable[] = {
    row("v_cvt_i32_f64", 3, kB32, kF64, lanes<[](double a) { return to_i32(a); }>),
    row("v_cvt_f64_i32", 4, kF64, kB32, lanes<[](int32_t a) { return static_cast<double>(a); }>),
    row("v_cvt_f32_i32", 5, kF32, kB32, lanes<[](int32_t a) { return static_cast<float>(a); }>),
    row("v_cvt_f32_u32", 6, kF32, kB32, lanes<[](uint32_t a) { return static_cast<float>(a); }>),
    row("v_cvt_u32_f32", 7, kB32, kF32, lanes<[](float a) { return to_u32(a); }>),
    row("v_cvt_i32_f32", 8, kB32, kF32, lanes<[](float a) { return to_i32(a); }>),
    row("v_cvt_f16_f32", 10, kF16, kF32, lanes<[](float a) -> F16 { return a; }>),
    row("v_cvt_f32_f16", 11, kF32, kF16, lanes<[](F16 a) -> float { return a; }>),
    approximate(row("v_cvt_rpi_i32_f32", 12, kB32, kF32,
                    lanes<[](float a) { return to_i32(__builtin_floorf(a + 0.5f)); }, kRoundsItself>),
                "a + 0.5 is rounded to f32 before the floor, as the pseudocode is written"),
    row("v_cvt_flr_i32_f32", 13, kB32, kF32,
        lanes<[](float a) { return to_i32(__builtin_floorf(a)); }>),
    row("v_cvt_off_f32_i4", 14, kF32, kB32, lanes<[](uint32_t a) { return offset_i4(a); }>),
    row("v_cvt_f32_f64", 15, kF32, kF64, lanes<[](double a) { return static_cast<float>(a); }>),
    row("v_cvt_f64_f32", 16, kF64, kF32, lanes<[](float a) { return static_cast<double>(a); }>),
    row("v_cvt_f32_ubyte0", 17, kF32, kB32, lanes<byte_to_float<0>>),
    row("v_cvt_f32_ubyte1", 18, kF32, kB32, lanes<byte_to_float<1>>),
    row("v_cvt_f32_ubyte2", 19, kF32, kB32, lanes<byte_to_float<2>>),
    row("v_cvt_f32_ubyte3", 20, kF32, kB32, lanes<byte_to_float<3>>),
    row("v_cvt_u32_f64", 21, kB32, kF64, lanes<[](double a) { return to_u32(a); }>),
    row("v_cvt_f64_u32", 22, kF64, kB32, lanes<[](uint32_t a) { return static_cast<double>(a); }>),
    row("v_cvt_f16_u16", 57, kF16, kI16,
        lanes<[](uint16_t a) -> F16 { return static_cast<float>(a); }>),
    row("v_cvt_f16_i16", 58, kF16, kI16,
        lanes<[](int16_t a) -> F16 { return static_cast<float>(a); }>),
    row("v_cvt_u16_f16", 59, kI16, kF16, lanes<[](F16 a) { return to_u16(a); }>),
    row("v_cvt_i16_f16", 60, kI16, kF16, lanes<[](F16 a) { return to_i16(a); }>),
    row("v_cvt_norm_i16_f16", 77, kI16, kF16, lanes<[](F16 a) { return to_snorm16(a); }>),
    row("v_cvt_norm_u16_f16", 78, kI16, kF16, lanes<[](F16 a) { return to_unorm16(a); }>),
    row("v_cvt_f32_bf16", 91, kF32, kBf16, lanes<[](uint16_t a) { return bf16_to_f32(a); }>,
        kGfx950Bit),
};

}  // namespace

std::span<const OpInfo> vop1_convert_ops() { return kTable; }

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
