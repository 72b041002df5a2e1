// VOP3-only conversions that pack two results into one register. FP8, BF8 and FP4: fp8.cpp.
#include <cstring>

#include "exec/vector/convert.h"
#include "exec/vector/integer.h"
#include "exec/vector/lanes.h"
#include "exec/vector/tables.h"

namespace asmevo::emulator {

namespace {

using enum Type;

constexpr OpInfo row(const char* name, uint16_t opcode, Type dst, std::initializer_list<Type> sources,
                     Handler run, TargetMask targets = kAllTargets, uint32_t flags = kNoFlags) {
    return vector_row(name, Encoding::kVop3, opcode, dst, sources, run, flags, targets);
}

constexpr uint32_t pack(uint16_t low, uint16_t high) { return low | static_cast<uint32_t>(high) << 16; }

constexpr uint32_t insert_byte(uint32_t into, uint32_t index, uint32_t byte) {
    const uint32_t shift = 8 * (index & 3);
    return (into & ~(0xffu << shift)) | (byte & 0xff) << shift;
}

// Two f32 sources rounded as `Rounding` says into the halves of a register.
template <int Rounding>
void pack_halves(Wave& wave, const Inst& inst) {
    Scratch scratch[2];
    detail::Result result;
    LaneArray half[2];
    for (int i = 0; i < 2; ++i) {
        const Source source = fetch<kPlain>(wave, inst, i, scratch[i]);
        std::memcpy(&half[i], source.low, sizeof(LaneArray));
        if (Rounding == _MM_FROUND_TO_NEAREST_INT && LaneEnv{wave.mode}.fp16_overflow()) {
            detail::limit_f16(half[i].lane);
        }
        narrow_f16<Rounding>(half[i].lane);
    }
    for (int lane = 0; lane < kLanes; ++lane) {
        result.low[lane] = half[0].lane[lane] | half[1].lane[lane] << 16;
    }
    detail::store<uint32_t, kPlain>(wave, inst, result);
}

constexpr OpInfo kTable[] = {
    row("v_cvt_pk_u8_f32", 0x1dd, kB32, {kF32, kB32, kB32},
        lanes<[](float a, uint32_t index, uint32_t into) { return insert_byte(into, index, to_u8(a)); }>),
    row("v_cvt_pkaccum_u8_f32", 0x1f0, kB32, {kF32, kB32},
        lanes<[](float a, uint32_t index, uint32_t into) { return insert_byte(into, index, to_u8(a)); },
              kAccumulates>, kAllTargets, kDstIsRead),
    row("v_ashr_pk_i8_i32", 0x265, kI16, {kB32, kB32, kB32},
        lanes<[](int32_t a, int32_t b, uint32_t shift) {
            const uint32_t low = static_cast<uint8_t>(saturate<int8_t>((a >> (shift & 31))));
            const uint32_t high = static_cast<uint8_t>(saturate<int8_t>((b >> (shift & 31))));
            return wrap16(low | high << 8);
        }, kKeepsHigh>, kGfx950Bit, kDstIsRead),
    row("v_ashr_pk_u8_i32", 0x266, kI16, {kB32, kB32, kB32},
        lanes<[](int32_t a, int32_t b, uint32_t shift) {
            const uint32_t low = saturate<uint8_t>((a >> (shift & 31)));
            const uint32_t high = saturate<uint8_t>((b >> (shift & 31)));
            return wrap16(low | high << 8);
        }, kKeepsHigh>, kGfx950Bit, kDstIsRead),
    row("v_cvt_pk_f16_f32", 0x267, kPkF16, {kF32, kF32},
        pack_halves<_MM_FROUND_TO_NEAREST_INT>, kGfx950Bit),
    row("v_cvt_pk_bf16_f32", 0x268, kPkBf16, {kF32, kF32},
        lanes<[](float a, float b) { return pack(f32_to_bf16(a), f32_to_bf16(b)); }, kRoundsItself>,
        kGfx950Bit),
    row("v_cvt_pknorm_i16_f32", 0x294, kPkI16, {kF32, kF32}, lanes<[](float a, float b) {
            return pack(static_cast<uint16_t>(to_snorm16(a)), static_cast<uint16_t>(to_snorm16(b)));
        }>),
    row("v_cvt_pknorm_u16_f32", 0x295, kPkI16, {kF32, kF32},
        lanes<[](float a, float b) { return pack(to_unorm16(a), to_unorm16(b)); }>),
    row("v_cvt_pkrtz_f16_f32", 0x296, kPkF16, {kF32, kF32}, pack_halves<_MM_FROUND_TO_ZERO>),
    row("v_cvt_pk_u16_u32", 0x297, kPkI16, {kB32, kB32}, lanes<[](uint32_t a, uint32_t b) {
            return pack(saturate<uint16_t>(a), saturate<uint16_t>(b));
        }>),
    row("v_cvt_pk_i16_i32", 0x298, kPkI16, {kB32, kB32}, lanes<[](int32_t a, int32_t b) {
            return pack(static_cast<uint16_t>(saturate<int16_t>(a)),
                        static_cast<uint16_t>(saturate<int16_t>(b)));
        }>),
    row("v_cvt_pknorm_i16_f16", 0x299, kPkI16, {kF16, kF16}, lanes<[](F16 a, F16 b) {
            return pack(static_cast<uint16_t>(to_snorm16(a)), static_cast<uint16_t>(to_snorm16(b)));
        }>),
    row("v_cvt_pknorm_u16_f16", 0x29a, kPkI16, {kF16, kF16},
        lanes<[](F16 a, F16 b) { return pack(to_unorm16(a), to_unorm16(b)); }>),
};

}  // namespace

std::span<const OpInfo> vop3_convert_ops() { return kTable; }

}  // namespace asmevo::emulator
