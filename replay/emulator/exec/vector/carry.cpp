// Additions and subtractions with carry in or out. The carry-out mask has zeros for inactive lanes.
#include "exec/vector/integer.h"
#include "exec/vector/lanes.h"
#include "exec/vector/tables.h"

namespace asmevo::emulator {

namespace {

using enum Type;

enum class Carry { kOut, kInOut };

constexpr auto kAdd = [](uint64_t a, uint64_t b, uint64_t carry) { return a + b + carry; };
constexpr auto kSub = [](uint64_t a, uint64_t b, uint64_t borrow) { return a - b - borrow; };
constexpr auto kSubrev = [](uint64_t a, uint64_t b, uint64_t borrow) { return b - a - borrow; };

// F gives a 64-bit value whose bit 32 is the carry or borrow.
template <auto F, Carry Kind>
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
        const uint64_t value = F(a.low[lane], b.low[lane], carry_in[lane] & 1);
        result[lane] = static_cast<uint32_t>(value);
        carry_out[lane] = (value >> 32) != 0 ? ~0u : 0u;
    }
    const uint64_t carry_mask = collect_mask(carry_out);
    if (inst.clamp) {  // unsigned saturation: a carry goes to the top, a borrow to zero
        const uint32_t limit = F(0, 0, 1) == 1 ? ~0u : 0u;
        for (int lane = 0; lane < kLanes; ++lane) {
            result[lane] = carry_out[lane] != 0 ? limit : result[lane];
        }
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
    row("v_add_co_u32", 25, false, with_carry<kAdd, Carry::kOut>),
    row("v_sub_co_u32", 26, false, with_carry<kSub, Carry::kOut>),
    row("v_subrev_co_u32", 27, false, with_carry<kSubrev, Carry::kOut>),
    row("v_addc_co_u32", 28, true, with_carry<kAdd, Carry::kInOut>),
    row("v_subb_co_u32", 29, true, with_carry<kSub, Carry::kInOut>),
    row("v_subbrev_co_u32", 30, true, with_carry<kSubrev, Carry::kInOut>),
};

}  // namespace

std::span<const OpInfo> vop2_carry_ops() { return kTable; }

}  // namespace asmevo::emulator
