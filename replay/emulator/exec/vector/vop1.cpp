// VOP1 and its VOP3 forms: moves and bit operations.
#include "isa/tables.h"

#include <bit>

#include "exec/vector/integer.h"
#include "exec/vector/lanes.h"
#include "exec/vector/tables.h"

namespace asmevo::emulator::inline ASMEVO_VECTOR_WIDTH {

namespace {

using enum Type;

constexpr OpInfo row(const char* name, uint16_t opcode, Type dst, Type source, Handler run,
                     TargetMask targets = kAllTargets, uint32_t flags = kNoFlags) {
    return vector_row(name, Encoding::kVop1, opcode, dst, {source}, run, flags, targets);
}

void no_operation(Wave&, const Inst&) {}

constexpr uint32_t reverse_bits(uint32_t value) {
    value = (value >> 1 & 0x55555555u) | (value & 0x55555555u) << 1;
    value = (value >> 2 & 0x33333333u) | (value & 0x33333333u) << 2;
    value = (value >> 4 & 0x0f0f0f0fu) | (value & 0x0f0f0f0fu) << 4;
    return std::rotl((value >> 8 & 0x00ff00ffu) | (value & 0x00ff00ffu) << 8, 16);
}

constexpr uint16_t saturate_bytes(uint32_t value) {
    const uint32_t low = saturate<uint8_t>(static_cast<int16_t>(value));
    const uint32_t high = saturate<uint8_t>(static_cast<int16_t>(value >> 16));
    return wrap16(low | high << 8);
}

constexpr OpInfo kTable[] = {
    vector_row("v_nop", Encoding::kVop1, 0, kNone, {}, no_operation, kNoVop3),
    row("v_mov_b32", 1, kB32, kB32, lanes<[](uint32_t a) { return a; }, kNoFlush>),
    row("v_not_b32", 43, kB32, kB32, lanes<[](uint32_t a) { return ~a; }>),
    row("v_bfrev_b32", 44, kB32, kB32, lanes<[](uint32_t a) { return reverse_bits(a); }>),
    row("v_ffbh_u32", 45, kB32, kB32,
        lanes<[](uint32_t a) -> int32_t { return a == 0 ? -1 : std::countl_zero(a); }>),
    row("v_ffbl_b32", 46, kB32, kB32,
        lanes<[](uint32_t a) -> int32_t { return a == 0 ? -1 : std::countr_zero(a); }>),
    row("v_ffbh_i32", 47, kB32, kB32, lanes<[](uint32_t a) -> int32_t {
            const uint32_t changes = a ^ (0u - (a >> 31));  // sign bits cleared
            return changes == 0 ? -1 : std::countl_zero(changes);
        }>),
    // No exception is ever recorded: there is nothing to clear.
    vector_row("v_clrexcp", Encoding::kVop1, 53, kNone, {}, no_operation),
    missing(row("v_screen_partition_4se_b32", 55, kB32, kB32, nullptr),
            "the table of screen partitions that it looks up is not published"),
    row("v_mov_b64", 56, kB64, kB64, lanes<[](uint64_t a) { return a; }, kNoFlush>, kGfx940Plus),
    row("v_sat_pk_u8_i16", 79, kI16, kB32, lanes<[](uint32_t a) { return saturate_bytes(a); }>),
    row("v_prng_b32", 88, kB32, kB32,
        lanes<[](uint32_t a) { return a << 1 ^ ((a & 0x80000000u) != 0 ? 197u : 0u); }>, kGfx950Bit),
};

}  // namespace

std::span<const OpInfo> vop1_rows() {
    static const std::vector<OpInfo> table = join_tables(
        {kTable, vop1_convert_ops(), vop1_float_ops(), vop1_fp8_ops(), vop1_lane_ops()});
    return table;
}

}  // namespace asmevo::emulator::ASMEVO_VECTOR_WIDTH
