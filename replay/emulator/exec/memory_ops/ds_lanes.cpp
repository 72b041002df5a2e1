// DS operations that move data between lanes: permutes, swizzle and gfx950's transposing reads.
#include "exec/memory_ops/data.h"
#include "exec/memory_ops/ds_rows.h"
#include "exec/memory_ops/lds.h"

namespace asmevo::emulator {
namespace {

int permute_lane(const Wave& wave, const Inst& inst, int lane) {
    return static_cast<int>(
        (wave.lanes(inst.src[0].index)[lane] + static_cast<uint32_t>(inst.offset)) / 4 % kLanes);
}

/// Push: the last active lane that names a target wins; lanes nobody names receive zero.
void permute(Wave& wave, const Inst& inst) {
    uint32_t result[kLanes] = {};
    const uint32_t* data = wave.lanes(inst.src[1].index);
    for_each_lane(wave.exec(),
                  [&](int lane) { result[permute_lane(wave, inst, lane)] = data[lane]; });
    uint32_t* target = wave.lanes(inst.dst[0].index);
    for_each_lane(wave.exec(), [&](int lane) { target[lane] = result[lane]; });
}

/// Writes source_lane(lane)'s data to each active lane; an inactive source reads as zero.
template <typename SourceLane>
void pull(Wave& wave, uint16_t data_index, uint16_t target_index, SourceLane&& source_lane) {
    const uint64_t exec = wave.exec();
    uint32_t data[kLanes], result[kLanes];
    std::memcpy(data, wave.lanes(data_index), sizeof data);
    for_each_lane(exec, [&](int lane) {
        const int source = source_lane(lane);
        result[lane] = (exec >> source & 1) != 0 ? data[source] : 0;
    });
    uint32_t* target = wave.lanes(target_index);
    for_each_lane(exec, [&](int lane) { target[lane] = result[lane]; });
}

void backward_permute(Wave& wave, const Inst& inst) {
    pull(wave, inst.src[1].index, inst.dst[0].index,
         [&](int lane) { return permute_lane(wave, inst, lane); });
}

int reverse_bits5(int value) {
    int out = 0;
    for (int bit = 0; bit < 5; ++bit) {
        out |= (value >> bit & 1) << (4 - bit);
    }
    return out;
}

/// Source lane of ds_swizzle_b32 (ISA, DS_SWIZZLE_B32): FFT, rotate, quad permute or bit mask, by
/// the offset's top bits.
int swizzle_source(uint32_t offset, int lane) {
    const int group = lane & 0x20, within = lane & 0x1f;
    if (offset >= 0xe000) {
        const int mask = static_cast<int>(offset & 0x1f);
        const int shifted = reverse_bits5(within) >> std::popcount(static_cast<unsigned>(mask));
        return group | ((shifted | (within & mask)) & 0x1f);
    }
    if (offset >= 0xc000) {
        const int mask = static_cast<int>(offset & 0x1f),
                  amount = static_cast<int>(offset >> 5 & 0x1f);
        const int rotated = (offset & 0x400) != 0 ? within - amount : within + amount;
        return group | (((within & mask) | (rotated & ~mask)) & 0x1f);
    }
    if ((offset & 0x8000) != 0) {
        return (lane & ~3) | static_cast<int>(offset >> (2 * (lane & 3)) & 3);
    }
    const int and_mask = static_cast<int>(offset & 0x1f),
              or_mask = static_cast<int>(offset >> 5 & 0x1f);
    const int xor_mask = static_cast<int>(offset >> 10 & 0x1f);
    return group | (((within & and_mask) | or_mask) ^ xor_mask);
}

void swizzle(Wave& wave, const Inst& inst) {
    const uint32_t offset = static_cast<uint32_t>(inst.offset) & 0xffff;
    pull(wave, inst.src[0].index, inst.dst[0].index,
         [&](int lane) { return swizzle_source(offset, lane); });
}

constexpr int kTransposeLanes = 16;

uint32_t read_bits(const uint8_t* bytes, unsigned start, unsigned count) {
    uint32_t value = 0;
    for (unsigned bit = 0; bit < count; ++bit) {
        value |= static_cast<uint32_t>(bytes[(start + bit) / 8] >> ((start + bit) % 8) & 1) << bit;
    }
    return value;
}

void write_bits(uint8_t* bytes, unsigned start, unsigned count, uint32_t value) {
    for (unsigned bit = 0; bit < count; ++bit) {
        bytes[(start + bit) / 8] |= static_cast<uint8_t>((value >> bit & 1) << ((start + bit) % 8));
    }
}

/// gfx950 ds_read_*_tr_*: 16 lanes fetch a row piece each and receive it transposed. With E
/// elements a lane and 16 / E lanes a row, lane i's element j is element i mod E of lane j * (16 /
/// E) + i / E (measured layouts: reference page cdna3_facts, section 5).
template <unsigned Bits, unsigned Elements>
void read_transposed(Wave& wave, const Inst& inst) {
    refuse_gds(inst);
    constexpr unsigned size = Bits * Elements / 8, lanes_per_row = kTransposeLanes / Elements;
    const uint64_t exec = wave.exec();
    uint8_t fetched[kLanes][size];
    for_each_lane(exec, [&](int lane) {
        const uint32_t address = ds_address(wave, inst, lane);
        std::memcpy(fetched[lane], lds_access(wave, address, size, lane), size);
    });
    for_each_lane(exec, [&](int lane) {
        const unsigned within = static_cast<unsigned>(lane) % kTransposeLanes;
        const int group = lane - static_cast<int>(within);
        uint8_t result[size] = {};
        for (unsigned j = 0; j < Elements; ++j) {
            const int source = group + static_cast<int>(j * lanes_per_row + within / Elements);
            if ((exec >> source & 1) == 0) {
                throw Fault("a transposing LDS read takes data from an inactive lane", lane);
            }
            write_bits(result, j * Bits, Bits,
                       read_bits(fetched[source], within % Elements * Bits, Bits));
        }
        load_lane<size == 12 ? Data::kB96 : Data::kB64>(wave, inst.dst[0].index, lane, result);
    });
}

constexpr DsOperands kPermute{.loaded = Type::kB32, .data0 = Type::kB32};

constexpr OpInfo kRows[] = {
    // Permutes use the LDS crossbar but no LDS memory.
    ds_row("ds_swizzle_b32", 0x3d, kAllTargets, {.loaded = Type::kB32}, kNoFlags, swizzle),
    ds_row("ds_permute_b32", 0x3e, kAllTargets, kPermute, kNoFlags, permute),
    ds_row("ds_bpermute_b32", 0x3f, kAllTargets, kPermute, kNoFlags, backward_permute),
    ds_row("ds_read_b64_tr_b4", 0xe0, kGfx950Bit, {.loaded = Type::kB64}, kLds,
           read_transposed<4, 16>),
    ds_row("ds_read_b96_tr_b6", 0xe1, kGfx950Bit, {.loaded = Type::kB96}, kLds,
           read_transposed<6, 16>),
    ds_row("ds_read_b64_tr_b8", 0xe2, kGfx950Bit, {.loaded = Type::kB64}, kLds,
           read_transposed<8, 8>),
    ds_row("ds_read_b64_tr_b16", 0xe3, kGfx950Bit, {.loaded = Type::kB64}, kLds,
           read_transposed<16, 4>),
};

}  // namespace

std::span<const OpInfo> ds_lane_rows() {
    return kRows;
}

}  // namespace asmevo::emulator
