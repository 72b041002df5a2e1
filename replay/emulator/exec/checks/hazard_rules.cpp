#include "exec/checks/hazard_rules.h"

#include <algorithm>

#include "exec/wave.h"

namespace asmevo::emulator {
namespace {

constexpr auto kCaution = FindingClass::kCaution;

RegSpan common(const RegSpan& a, const RegSpan& b) {
    const unsigned first = std::max(a.first, b.first);
    const unsigned end = std::min(a.first + a.count, b.first + b.count);
    if (a.file != b.file || first >= end) {
        return {};
    }
    return {a.file, static_cast<uint16_t>(first), static_cast<uint8_t>(end - first)};
}

RegSpan span_of(const Operand& operand) {
    if (!operand.is_vgpr() && !operand.is_sgpr()) {
        return {};
    }
    return {operand.is_vgpr() ? RegSpan::kVector : RegSpan::kScalar, operand.index, operand.dwords};
}

/// The first register run of `file` that both lists name; count 0 when there is none.
RegSpan common(RegSpan::File file, const RegSpan* a, unsigned a_count, const RegSpan* b, unsigned b_count) {
    for (unsigned i = 0; i < a_count; ++i) {
        for (unsigned j = 0; j < b_count && a[i].file == file; ++j) {
            const bool is_exec = file == RegSpan::kScalar && a[i].first == kExecCode;
            if (const RegSpan both = common(a[i], b[j]); both.count && !is_exec) {
                return both;
            }
        }
    }
    return {};
}

RegSpan write_after_write(const Inst& first, const Inst& second) {
    return common(RegSpan::kVector, first.writes, first.write_count, second.writes, second.write_count);
}

RegSpan overwrites(const RegSpan& span, const Inst& second) {
    return common(RegSpan::kVector, &span, 1, second.writes, second.write_count);
}

const Operand& accumulator(const Inst& inst) {
    return (inst.info->flags & kDstIsRead) ? inst.dst[0] : inst.src[2];
}

/// A, B and, for SMFMAC, the index; of v_mfma_ld_scale the scales.
RegSpan factor_overlap(const RegSpan& span, const Inst& inst) {
    const unsigned factors = (inst.info->flags & kDstIsRead) ? 3 : 2;
    for (unsigned i = 0; i < factors; ++i) {
        if (const RegSpan both = common(span, span_of(inst.src[i])); both.count) {
            return both;
        }
    }
    return {};
}

/// Whether an operand names the registers. LLVM does not see that SDWA which keeps part of its destination reads it, so
/// compilers do not wait there.
bool names_source(const Inst& inst, const RegSpan& span) {
    const bool is_implicit = inst.sdwa.enabled && !(inst.info->flags & kDstIsRead);
    return !is_implicit ||
           std::any_of(std::begin(inst.src), std::end(inst.src),
                       [&](const Operand& operand) { return common(span, span_of(operand)).count > 0; });
}

bool is_same(const RegSpan& a, const RegSpan& b) { return a.first == b.first && a.count == b.count; }

}  // namespace

RegSpan read_after_write(RegSpan::File file, const Inst& first, const Inst& second) {
    return common(file, first.writes, first.write_count, second.reads, second.read_count);
}

Requirements::Requirements(const HazardTraits& producer, const HazardTraits& consumer)
    : producer_(producer), consumer_(consumer), target_(producer.inst->target) {
    const Inst &first = *producer.inst, &second = *consumer.inst;
    if (producer.matrix != MatrixKind::kNone) {
        matrix_results();
        return;
    }
    if (producer.uses & kValuUse) {
        if (producer.writes_exec) {
            exec_results();
        }
        if (producer.writes_scalar) {
            scalar_results();
        }
        if (producer.writes_vector) {
            vector_results();
        }
        return;
    }
    if (producer.uses & (kVmemUse | kLdsUse)) {
        if (producer.wide_data.count && (consumer.uses & (kValuUse | kMatrixUse))) {
            add("wide-store-data", target_ == Target::kGfx90a ? 1 : 2, overwrites(producer.wide_data, second));
        }
        if (consumer.uses & kDppUse) {
            // LLVM spaces DPP from any definition of any operand; a load's is waited for.
            const RegSpan read = read_after_write(RegSpan::kVector, first, second);
            add("load-dpp", 2, read.count ? read : write_after_write(first, second), kCaution);
        }
        return;
    }
    if ((producer.interests & kSetregUse) && (consumer.uses & kSetregUse)) {
        // The register's number is hwreg[5:0].
        if (((first.simm ^ second.simm) & 0x3f) == 0) {
            add("setreg", 2, {RegSpan::kScalar, 0, 1});
        }
    } else if (consumer.uses & kLateM0Use) {
        add("salu-m0", 1, {RegSpan::kScalar, kM0Code, 1});
    }
}

void Requirements::add(const char* rule, unsigned states, const RegSpan& span, FindingClass severity) {
    if (states > 0 && span.count > 0 && count_ < kMost) {
        found_[count_++] = {rule, states, severity, span};
    }
}

/// v_cmpx writes EXEC.
void Requirements::exec_results() {
    const RegSpan exec{RegSpan::kScalar, kExecCode, 2};
    const unsigned lanes = kLaneReadUse | kLaneWriteUse | kLaneSwapUse;
    if (consumer_.uses & (kMatrixUse | (target_ == Target::kGfx90a ? 0u : lanes))) {
        add("valu-exec-lane", 4, exec);
    }
    if (consumer_.uses & kDppUse) {
        add("valu-exec-dpp", 5, exec);
    }
    if (consumer_.uses & kVmemUse) {
        // LLVM takes EXEC for one of the scalar registers that the access reads.
        add("valu-exec-vmem", 5, exec, kCaution);
    }
}

/// The VALU writes an SGPR or VCC.
void Requirements::scalar_results() {
    const Inst& second = *consumer_.inst;
    const RegSpan read = read_after_write(RegSpan::kScalar, *producer_.inst, second);
    if (!read.count) {
        return;
    }
    if (consumer_.uses & kVmemUse) {
        add("valu-sgpr-vmem", 5, read, read.first == kM0Code ? kCaution : FindingClass::kError);
    }
    const unsigned known = count_;
    const RegSpan select = span_of(consumer_.lane_select);
    const Inst& first = *producer_.inst;
    add("valu-sgpr-lane-select", 4,
        common(RegSpan::kScalar, first.writes, first.write_count, &select, select.count ? 1 : 0));
    if ((consumer_.uses & kDivFmasUse) && read.first == kVccCode) {
        add("valu-vcc-div-fmas", 4, read);
    }
    if (count_ == known && (consumer_.uses & kValuUse) && target_ != Target::kGfx90a) {
        add("valu-sgpr-valu", 2, read);
    }
}

/// The VALU writes a VGPR or AGPR.
void Requirements::vector_results() {
    const Inst &first = *producer_.inst, &second = *consumer_.inst;
    const RegSpan read = read_after_write(RegSpan::kVector, first, second);
    const RegSpan written = write_after_write(first, second);
    const RegSpan touched = read.count ? read : written;
    if (!touched.count) {
        return;
    }
    if (producer_.is_dot) {
        dot_results(touched);
    }
    if (consumer_.uses & kDppUse) {
        // The hardware asks for it for the source that comes from other lanes, LLVM for every operand.
        const RegSpan source = span_of(second.src[0]);
        const RegSpan swizzled = common(RegSpan::kVector, first.writes, first.write_count, &source, 1);
        swizzled.count ? add("valu-dpp", 2, swizzled) : add("valu-dpp-operand", 2, touched, kCaution);
    }
    if (consumer_.uses & kLaneSwapUse) {
        add("valu-permlane", 2, touched);
    }
    if ((consumer_.uses & kMatrixUse) && !producer_.is_dot) {
        add("valu-mfma", 2, read);
    }
    if (target_ == Target::kGfx90a || !(consumer_.uses & (kValuUse | kMatrixUse))) {
        return;
    }
    if (consumer_.uses & kLaneReadUse) {
        add("valu-readlane", 1, read);
    }
    if (producer_.is_transcendental && (consumer_.uses & kValuUse) &&
        second.info->category != Category::kTrans) {
        add("transcendental", 1, read, names_source(second, read) ? FindingClass::kError : kCaution);
    }
    // One that keeps part of its destination reads it too, if only for the parity.
    const bool is_use = (consumer_.uses & kValuUse) && (read.count || consumer_.preserves_destination);
    if (producer_.shifts_destination) {
        add("destination-shift", 1, touched, is_use ? FindingClass::kError : kCaution);
    } else if (producer_.preserves_destination && consumer_.preserves_destination) {
        // The two halves of one register, written back to back (CDNA3 ISA 7.2; LLVM does not part them).
        add("converted-halves", 1, written, kCaution);
    } else if (producer_.is_packed) {
        // LLVM takes the default op_sel_hi for a shifted destination: the same bit of the encoding.
        add("packed-result", 1, touched, kCaution);
    }
}

void Requirements::dot_results(const RegSpan& touched) {
    const Inst &first = *producer_.inst, &second = *consumer_.inst;
    if (first.info == second.info) {
        // The accumulator is forwarded.
        RegSpan factor;
        for (int i = 0; i < 2 && !factor.count; ++i) {
            const RegSpan source = span_of(second.src[i]);
            factor = common(RegSpan::kVector, first.writes, first.write_count, &source, 1);
        }
        add("dot", 3, factor);
        return;
    }
    if (consumer_.uses & kMatrixUse) {
        return;
    }
    const bool is_valu = (consumer_.uses & kValuUse) != 0;
    add("dot", 3, touched, is_valu ? FindingClass::kError : kCaution);
}

unsigned Requirements::result_states(bool is_memory, bool is_overwrite) const {
    const unsigned passes = producer_.passes;
    if (producer_.matrix == MatrixKind::kDgemm) {
        if (passes == 4) {
            return is_memory && !is_overwrite ? 9 : 6;
        }
        return is_overwrite ? 11 : is_memory ? 18 : passes + 3;
    }
    if (producer_.matrix == MatrixKind::kSgemm && target_ != Target::kGfx90a) {
        return passes + 2;
    }
    return passes + (target_ == Target::kGfx950 && passes > 2 ? 4 : 3);
}

/// A matrix operation reads C, or writes D, over part of the result.
unsigned Requirements::overlap_states() const {
    const unsigned passes = producer_.passes;
    const bool is_xdl = consumer_.matrix == MatrixKind::kXdl;
    if (target_ == Target::kGfx90a) {
        const bool is_double = consumer_.matrix == MatrixKind::kDgemm;
        if (producer_.matrix != MatrixKind::kDgemm) {
            return is_double ? passes + 1 : passes;
        }
        return !is_double ? 0 : passes == 4 ? 4 : passes + 1;
    }
    if (is_xdl && producer_.matrix != MatrixKind::kXdl) {
        return 0;
    }
    if (producer_.matrix == MatrixKind::kDgemm) {
        return passes == 4 ? 4 : passes + 1;
    }
    if (producer_.matrix == MatrixKind::kSgemm) {
        return passes;
    }
    const bool is_later = target_ == Target::kGfx950 && (passes > 2 || is_xdl);
    return passes + (is_later ? 2 : 1);
}

void Requirements::matrix_results() {
    const Inst& second = *consumer_.inst;
    const RegSpan result = span_of(producer_.inst->dst[0]);
    if (consumer_.uses & kMatrixUse) {
        matrix_after_matrix();
        return;
    }
    const RegSpan read = common(RegSpan::kVector, &result, 1, second.reads, second.read_count);
    const bool is_memory = (consumer_.uses & (kVmemUse | kLdsUse)) != 0;
    if (is_memory || (consumer_.uses & kValuUse)) {
        add(is_memory ? "mfma-memory-read" : "mfma-valu-read", result_states(is_memory, false), read,
            names_source(second, read) ? FindingClass::kError : kCaution);
        add("mfma-overwrite", result_states(is_memory, true), overwrites(result, second));
    }
    // Before gfx940 one pipeline runs f32 and the small types alike.
    const bool reads_late = producer_.matrix == MatrixKind::kXdl ||
                            (producer_.matrix == MatrixKind::kSgemm && target_ == Target::kGfx90a);
    if (reads_late) {
        // A load comes too late to overwrite it; LLVM waits all the same.
        add("mfma-accumulator-overwrite", producer_.passes - 1u,
            overwrites(span_of(accumulator(*producer_.inst)), second),
            is_memory ? kCaution : FindingClass::kError);
    }
    if (producer_.matrix == MatrixKind::kDgemm && (consumer_.uses & kFmaF64Use)) {
        add("dgemm-fma", 2, result);
    }
}

void Requirements::matrix_after_matrix() {
    const Inst &first = *producer_.inst, &second = *consumer_.inst;
    const RegSpan result = span_of(first.dst[0]);
    add("mfma-factor", result_states(false, false), factor_overlap(result, second));
    if (consumer_.matrix == MatrixKind::kNone) {
        return;
    }
    const RegSpan sum = span_of(accumulator(second));
    const RegSpan shared = common(result, sum);
    if (shared.count && is_same(result, sum)) {
        // The accumulation chain forwards inside the pipeline.
        const bool is_double = producer_.matrix == MatrixKind::kDgemm;
        const bool is_short = producer_.passes == 2 && target_ != Target::kGfx90a;
        const unsigned chain = is_double ? (producer_.passes == 4 ? 4 : 0) : is_short ? 2 : 0;
        add("mfma-chain", chain, shared);
        if (first.info != second.info) {
            // The ISA's tables ask for it, LLVM 22 does not (llvm-project #218363).
            add("mfma-chain-other-opcode", overlap_states(), shared, kCaution);
        }
    } else if (shared.count) {
        add("mfma-overlap", overlap_states(), shared);
    } else {
        add("mfma-matrix-overwrite", overlap_states(), common(result, span_of(second.dst[0])), kCaution);
    }
}

}  // namespace asmevo::emulator
