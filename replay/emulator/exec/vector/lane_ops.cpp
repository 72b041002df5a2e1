// Operations across lanes: reading and writing single lanes, lane counts, exchanges between registers.
#include <algorithm>
#include <bit>

#include "exec/vector/lanes.h"
#include "exec/vector/tables.h"

namespace asmevo::emulator {

namespace {

using enum Type;

void refuse_indexing(const Wave& wave) {
    if (wave.gpr_idx_on) {
        throw Fault("swaps of registers under VGPR indexing are not implemented");
    }
}

// With EXEC zero, lane 0 is read (ISA, V_READFIRSTLANE_B32).
void read_first_lane(Wave& wave, const Inst& inst) {
    const uint64_t exec = wave.exec();
    const int lane = exec == 0 ? 0 : std::countr_zero(exec);
    const Operand& source = inst.src[0];
    const uint32_t value =
        source.is_vgpr() ? wave.lanes(vgpr_number(wave, source, 0))[lane] : read_scalar32(wave, source);
    write_scalar32(wave, inst.dst[0], value);
}

void read_lane(Wave& wave, const Inst& inst) {
    const uint32_t lane = read_scalar32(wave, inst.src[1]) % kLanes;
    const Operand& source = inst.src[0];
    const uint32_t value =
        source.is_vgpr() ? wave.lanes(vgpr_number(wave, source, 0))[lane] : read_scalar32(wave, source);
    write_scalar32(wave, inst.dst[0], value);
}

void write_lane(Wave& wave, const Inst& inst) {
    const uint32_t lane = read_scalar32(wave, inst.src[1]) % kLanes;
    wave.lanes(vgpr_number(wave, inst.dst[0], 3))[lane] = read_scalar32(wave, inst.src[0]);
}

void swap_registers(Wave& wave, const Inst& inst) {
    refuse_indexing(wave);
    uint32_t* first = wave.lanes(inst.dst[0].index);
    uint32_t* second = wave.lanes(inst.src[0].index);
    LaneArray old;
    std::copy_n(first, kLanes, old.lane);
    merge_lanes(first, second, wave.exec());
    merge_lanes(second, old.lane, wave.exec());
}

// Exchanges the odd groups of `Width` lanes of the destination with the even groups of the source. The ISA's
// pseudocode does not look at EXEC; what hardware does with inactive lanes is not published.
template <int Width>
void swap_lane_groups(Wave& wave, const Inst& inst) {
    refuse_indexing(wave);
    if (wave.exec() != ~0ull) {
        throw Fault(std::string(inst.info->name) + " with inactive lanes is not implemented");
    }
    uint32_t* destination = wave.lanes(inst.dst[0].index);
    uint32_t* source = wave.lanes(inst.src[0].index);
    for (int group = 0; group < kLanes; group += 2 * Width) {
        std::swap_ranges(source + group, source + group + Width, destination + group + Width);
    }
}

// Active or not, each lane counts the mask bits of lanes below it in one half of the wave.
template <int Half>
void count_below(Wave& wave, const Inst& inst) {
    Scratch scratch[2];
    const Source bits = fetch<kNoFlush>(wave, inst, 0, scratch[0]);
    const Source base = fetch<kNoFlush>(wave, inst, 1, scratch[1]);
    alignas(64) uint32_t result[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        const uint64_t below = (uint64_t{1} << lane) - 1;
        const uint32_t part = static_cast<uint32_t>(below >> (32 * Half));
        result[lane] = base.low[lane] + static_cast<uint32_t>(std::popcount(bits.low[lane] & part));
    }
    store_dword(wave, inst, result);
}

constexpr OpInfo kVop1[] = {
    vector_row("v_readfirstlane_b32", Encoding::kVop1, 2, kB32, {kB32}, read_first_lane,
               kDstScalar | kNoVop3 | kIgnoresExec),
    vector_row("v_swap_b32", Encoding::kVop1, 81, kB32, {kB32}, swap_registers,
               kDstIsRead | kNoVop3),
    vector_row("v_permlane16_swap_b32", Encoding::kVop1, 89, kB32, {kB32}, swap_lane_groups<16>,
               kDstIsRead, kGfx950Bit),
    vector_row("v_permlane32_swap_b32", Encoding::kVop1, 90, kB32, {kB32}, swap_lane_groups<32>,
               kDstIsRead, kGfx950Bit),
};

constexpr OpInfo kVop3[] = {
    vector_row("v_readlane_b32", Encoding::kVop3, 0x289, kB32, {kB32, kB32}, read_lane,
               kDstScalar | kIgnoresExec),
    vector_row("v_writelane_b32", Encoding::kVop3, 0x28a, kB32, {kB32, kB32}, write_lane,
               kDstIsRead | kIgnoresExec),
    vector_row("v_mbcnt_lo_u32_b32", Encoding::kVop3, 0x28c, kB32, {kB32, kB32}, count_below<0>),
    vector_row("v_mbcnt_hi_u32_b32", Encoding::kVop3, 0x28d, kB32, {kB32, kB32}, count_below<1>),
};

}  // namespace

std::span<const OpInfo> vop1_lane_ops() { return kVop1; }
std::span<const OpInfo> vop3_lane_ops() { return kVop3; }

}  // namespace asmevo::emulator
