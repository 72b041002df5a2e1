// Additions and subtractions with carry in or out. The carry-out mask has zeros for inactive lanes.
#include "exec/vector/lanes.h"
#include "exec/vector/tables.h"

namespace asmevo::emulator {

namespace {

using enum Type;

enum class Carry { kOut, kInOut };

/// A dword and the carry or borrow that leaves it, as a lane mask.
struct WithCarry {
    uint32_t value, carry;
};

constexpr uint32_t lane_mask(bool set) { return set ? ~0u : 0u; }

// `carry` is all ones or zero.
constexpr auto kAdd = [](uint32_t a, uint32_t b, uint32_t carry) -> WithCarry {
    const uint32_t sum = a + b, total = sum - carry;
    return {total, lane_mask(sum < a) | lane_mask(total < sum)};
};
constexpr auto kSub = [](uint32_t a, uint32_t b, uint32_t borrow) -> WithCarry {
    const uint32_t difference = a - b, total = difference + borrow;
    return {total, lane_mask(a < b) | lane_mask(difference < total)};
};
constexpr auto kSubrev = [](uint32_t a, uint32_t b, uint32_t borrow) { return kSub(b, a, borrow); };

// `Limit` is what a set carry saturates to under clamp.
template <auto F, Carry Kind, uint32_t Limit>
void with_carry(Wave& wave, const Inst& inst) {
    const uint64_t mask = write_mask(wave, inst);
    if (mask != wave.exec()) {
        throw Fault("a DPP control that leaves lanes unwritten is not implemented with a carry-out");
    }
    Scratch scratch[2];
    const Source a = fetch<kNoFlush>(wave, inst, 0, scratch[0]);
    const Source b = fetch<kNoFlush>(wave, inst, 1, scratch[1]);
    alignas(64) uint32_t result[kLanes], carry_in[kLanes] = {}, carry_out[kLanes];
    if constexpr (Kind == Carry::kInOut) {
        spread_mask(read_mask(wave, inst.src[2]), carry_in);
    }
    for (int lane = 0; lane < kLanes; ++lane) {
        const WithCarry one = F(a.low[lane], b.low[lane], carry_in[lane]);
        result[lane] = one.value;
        carry_out[lane] = one.carry;
    }
    const uint64_t carry_mask = collect_mask(carry_out);
    for (int lane = 0; lane < kLanes && inst.clamp; ++lane) {
        result[lane] = carry_out[lane] != 0 ? Limit : result[lane];
    }
    store_dword(wave, inst, result);
    write_lane_mask(wave, inst.dst[1], carry_mask & mask);
}

constexpr OpInfo row(const char* name, uint16_t opcode, bool carry_in, Handler run) {
    OpInfo info = carry_in
                      ? vector_row(name, Encoding::kVop2, opcode, kB32, {kB32, kB32, kMask}, run)
                      : vector_row(name, Encoding::kVop2, opcode, kB32, {kB32, kB32}, run);
    info.dst[1] = kMask;
    return info;
}

constexpr OpInfo kTable[] = {
    row("v_add_co_u32", 25, false, with_carry<kAdd, Carry::kOut, ~0u>),
    row("v_sub_co_u32", 26, false, with_carry<kSub, Carry::kOut, 0u>),
    row("v_subrev_co_u32", 27, false, with_carry<kSubrev, Carry::kOut, 0u>),
    row("v_addc_co_u32", 28, true, with_carry<kAdd, Carry::kInOut, ~0u>),
    row("v_subb_co_u32", 29, true, with_carry<kSub, Carry::kInOut, 0u>),
    row("v_subbrev_co_u32", 30, true, with_carry<kSubrev, Carry::kInOut, 0u>),
};

}  // namespace

std::span<const OpInfo> vop2_carry_ops() { return kTable; }

}  // namespace asmevo::emulator
