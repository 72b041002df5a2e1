#include "exec/checks/alignment.h"

#include <cinttypes>
#include <cstdio>

#include "exec/memory_ops/buffer_address.h"
#include "exec/scalar/smem_address.h"

namespace asmevo::emulator {
namespace {

std::string hex(uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%" PRIx64, value);
    return text;
}

struct Misaligned {
    uint64_t address = 0;
    unsigned unit = 0;  // 0: none
    int lane = -1;
    FindingClass severity = FindingClass::kError;
    const char* what = "";
};

/// Scalar accesses ignore the two low address bits: the program gets other data than it asks for.
Misaligned scalar(const Wave& wave, const Inst& inst) {
    if (!inst.src[0] || (inst.info->flags & kReturnsWithGlc)) {
        return {};
    }
    const uint64_t base = inst.src[0].dwords == 4
                              ? ScalarBuffer(&wave.sgpr[inst.src[0].index]).base
                              : read_scalar64(wave, inst.src[0]);
    const uint64_t address = base + scalar_offset(wave, inst);
    return address % 4 ? Misaligned{address, 4, -1, FindingClass::kError, "address"} : Misaligned{};
}

/// Whether base, offset and all lanes' addresses are multiples of `unit` each, which makes the usual accesses aligned.
bool is_plainly_aligned(const Wave& wave, const Inst& inst, const AccessShape& shape, unsigned unit) {
    using Kind = AccessShape::Kind;
    const Operand& vaddr = inst.src[0];
    uint64_t base = static_cast<uint64_t>(static_cast<int64_t>(inst.offset));
    if (shape.kind == Kind::kBuffer) {
        const BufferDescriptor descriptor = read_descriptor(wave, inst.src[2]);
        if (inst.idxen || descriptor.add_tid || descriptor.swizzle) {
            return false;
        }
        base += descriptor.base + (inst.src[3] ? read_scalar32(wave, inst.src[3]) : 0);
    } else if (shape.kind == Kind::kGlobal || shape.kind == Kind::kScratch) {
        base += inst.src[2] ? read_scalar32(wave, inst.src[2]) : 0;
    } else {
        return false;
    }
    uint32_t low_bits = static_cast<uint32_t>(base);
    if (vaddr.is_vgpr()) {
        const uint32_t* lanes = wave.lanes(vaddr.index);
        uint32_t all = 0;
        for (int lane = 0; lane < kLanes; ++lane) {
            all |= lanes[lane];
        }
        low_bits |= all;
    }
    return low_bits % unit == 0;
}

/// Vector memory and LDS run in unaligned mode under HSA (LLVM unaligned-access-mode), so a dword across dwords is only
/// slow; LDS-DMA and the transposing reads have no such mode. Atomics fault in any case.
Misaligned vector(const Wave& wave, const Inst& inst, const AccessShape& shape, const LdsFootprint& footprint) {
    if (shape.loads_to_lds && wave.m0() % 4) {
        return {wave.m0(), 4, -1, FindingClass::kError, "LDS base in M0"};
    }
    const unsigned unit = shape.is_transposing ? 8 : std::min<unsigned>(4, shape.bytes);
    if (unit < 2 || shape.is_atomic() || (footprint.is_known && footprint.low_bits % unit == 0) ||
        is_plainly_aligned(wave, inst, shape, unit)) {
        return {};
    }
    Accesses accesses;
    resolve_accesses(wave, inst, shape, accesses);
    const bool must = shape.is_transposing || shape.loads_to_lds;
    for (const Access& access : accesses) {
        if (access.address % unit) {
            return {access.address, unit, access.lane, must ? FindingClass::kError : FindingClass::kCaution,
                    access.space == Space::kLds ? "LDS address" : "address"};
        }
    }
    return {};
}

}  // namespace

void check_alignment(const Wave& wave, const Inst& inst, const AccessShape& shape,
                     const LdsFootprint& footprint, uint64_t pc, Reporter& reporter) {
    const Misaligned found =
        inst.info->encoding == Encoding::kSmem ? scalar(wave, inst) : vector(wave, inst, shape, footprint);
    if (found.unit == 0) {
        return;
    }
    const bool is_error = found.severity == FindingClass::kError;
    reporter.report(wave, {is_error ? "misaligned" : "unaligned", pc, 0}, found.severity, [&](Finding& finding) {
        finding.where = hex(found.address);
        finding.lane = found.lane;
        finding.message = std::string(found.what) + " " + finding.where + " is no multiple of " +
                          std::to_string(found.unit) + (is_error ? "" : ": legal, but slow");
    });
}

}  // namespace asmevo::emulator
