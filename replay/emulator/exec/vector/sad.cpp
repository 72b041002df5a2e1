// Sums of absolute differences over packed bytes and halves.
#include "exec/vector/integer.h"
#include "exec/vector/lanes.h"
#include "exec/vector/tables.h"

namespace asmevo::emulator {

namespace {

using enum Type;

// A zero reference byte is left out of the masked form.
template <bool Masked>
constexpr uint32_t sad_bytes(uint32_t a, uint32_t reference, uint32_t sum) {
    for (int shift = 0; shift < 32; shift += 8) {
        const uint32_t other = reference >> shift & 0xff;
        sum += Masked && other == 0 ? 0 : absolute_difference(a >> shift & 0xff, other);
    }
    return sum;
}

constexpr uint32_t sad_halves(uint32_t a, uint32_t b, uint32_t sum) {
    return sum + absolute_difference(a & 0xffff, b & 0xffff) + absolute_difference(a >> 16, b >> 16);
}

// Four sums over a window that moves by one byte, 16 bits each.
template <bool Masked>
constexpr uint64_t sad_windows(uint64_t a, uint32_t reference, uint64_t sums) {
    uint64_t result = 0;
    for (int i = 0; i < 4; ++i) {
        const uint32_t window = static_cast<uint32_t>(a >> (8 * i));
        const uint32_t sum = static_cast<uint32_t>(sums >> (16 * i)) & 0xffff;
        result |= uint64_t{sad_bytes<Masked>(window, reference, sum) & 0xffffu} << (16 * i);
    }
    return result;
}

// v_mqsad_u32_u8: as the windows above with four 32-bit sums in and out.
void masked_windows_u32(Wave& wave, const Inst& inst) {
    const Operand& addend = inst.src[2];
    if (inst.clamp || wave.gpr_idx_on || !addend.is_vgpr()) {
        throw Fault("this form of v_mqsad_u32_u8 is not implemented");
    }
    Scratch scratch[2];
    const Source a = fetch<kNoFlush>(wave, inst, 0, scratch[0]);
    const Source reference = fetch<kNoFlush>(wave, inst, 1, scratch[1]);
    LaneArray result[4];
    for (int i = 0; i < 4; ++i) {
        const uint32_t* sums = wave.lanes(static_cast<uint16_t>(addend.index + i));
        for (int lane = 0; lane < kLanes; ++lane) {
            const uint64_t data = uint64_t{a.high[lane]} << 32 | a.low[lane];
            result[i].lane[lane] = sad_bytes<true>(static_cast<uint32_t>(data >> (8 * i)),
                                                   reference.low[lane], sums[lane]);
        }
    }
    for (int i = 0; i < 4; ++i) {
        merge_lanes(wave.lanes(static_cast<uint16_t>(inst.dst[0].index + i)), result[i].lane,
                    wave.exec());
    }
}

constexpr OpInfo row(const char* name, uint16_t opcode, Type wide, Handler run) {
    return vector_row(name, Encoding::kVop3, opcode, wide, {wide, kB32, wide}, run);
}

constexpr OpInfo kTable[] = {
    row("v_sad_u8", 0x1d9, kB32, lanes<[](uint32_t a, uint32_t b, uint32_t c) {
            return sad_bytes<false>(a, b, c);
        }>),
    row("v_sad_hi_u8", 0x1da, kB32, lanes<[](uint32_t a, uint32_t b, uint32_t c) {
            return (sad_bytes<false>(a, b, 0) << 16) + c;
        }>),
    row("v_sad_u16", 0x1db, kB32,
        lanes<[](uint32_t a, uint32_t b, uint32_t c) { return sad_halves(a, b, c); }>),
    row("v_sad_u32", 0x1dc, kB32,
        lanes<[](uint32_t a, uint32_t b, uint32_t c) { return absolute_difference(a, b) + c; }>),
    row("v_msad_u8", 0x1e4, kB32, lanes<[](uint32_t a, uint32_t b, uint32_t c) {
            return sad_bytes<true>(a, b, c);
        }>),
    row("v_qsad_pk_u16_u8", 0x1e5, kB64, lanes<[](uint64_t a, uint32_t b, uint64_t c) {
            return sad_windows<false>(a, b, c);
        }>),
    row("v_mqsad_pk_u16_u8", 0x1e6, kB64, lanes<[](uint64_t a, uint32_t b, uint64_t c) {
            return sad_windows<true>(a, b, c);
        }>),
    vector_row("v_mqsad_u32_u8", Encoding::kVop3, 0x1e7, kB128, {kB64, kB32, kB128},
               masked_windows_u32),
};

}  // namespace

std::span<const OpInfo> vop3_sad_ops() { return kTable; }

}  // namespace asmevo::emulator
