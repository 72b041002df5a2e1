// Addresses of scalar memory accesses.
#pragma once

#include "exec/wave.h"

namespace asmevo::emulator {

constexpr uint64_t kDwordAligned = ~uint64_t{3};  // the two low address bits are ignored (CDNA3 ISA, SMEM)

inline uint64_t scalar_offset(const Wave& wave, const Inst& inst) {
    auto offset = static_cast<uint64_t>(static_cast<int64_t>(inst.offset));
    return inst.src[1] ? offset + read_scalar32(wave, inst.src[1]) : offset;
}

/// S_SCRATCH_*: a register offset counts 64 bytes (CDNA4 ISA 12.6), the immediate bytes.
inline uint64_t scalar_scratch_address(const Wave& wave, const Inst& inst) {
    const uint64_t lines = inst.src[1] ? read_scalar32(wave, inst.src[1]) : 0;
    const auto offset = static_cast<uint64_t>(static_cast<int64_t>(inst.offset));
    return (read_scalar64(wave, inst.src[0]) + offset + 64 * lines) & kDwordAligned;
}

inline uint64_t scalar_address(const Wave& wave, const Inst& inst) {
    return (read_scalar64(wave, inst.src[0]) + scalar_offset(wave, inst)) & kDwordAligned;
}

/// A buffer resource as scalar accesses see it: base and bytes.
struct ScalarBuffer {
    uint64_t base, size;
    explicit ScalarBuffer(const uint32_t* words) {
        base = words[0] | uint64_t{words[1] & 0xffff} << 32;
        uint32_t stride = words[1] >> 16 & 0x3fff;
        size = uint64_t{words[2]} * (stride ? stride : 1);
    }
    bool holds(uint64_t offset, uint32_t bytes) const { return offset + bytes <= size; }
    uint64_t at(uint64_t offset) const { return (base + offset) & kDwordAligned; }
};

}  // namespace asmevo::emulator
