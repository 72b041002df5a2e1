#include "exec/seeded/delays.h"

#include <algorithm>
#include <string_view>

#include "exec/wave.h"

namespace asmevo::emulator {
namespace {

bool writes_scalar(const Inst& inst, uint16_t code) {
    return std::any_of(inst.writes, inst.writes + inst.write_count, [&](const RegSpan& span) {
        return span.file == RegSpan::kScalar && span.first <= code && code < span.first + span.count;
    });
}

bool reads_scalar(const Inst& inst, uint16_t code) {
    return std::any_of(inst.reads, inst.reads + inst.read_count, [&](const RegSpan& span) {
        return span.file == RegSpan::kScalar && span.first <= code && code < span.first + span.count;
    });
}

bool is_vector_memory(Category category) {
    switch (category) {
        case Category::kVmemLoad: case Category::kVmemStore: case Category::kVmemAtomic:
        case Category::kFlatLoad: case Category::kFlatStore: case Category::kFlatAtomic: return true;
        default: return false;
    }
}

RegSpan register_span(const Operand& operand) {
    return {operand.is_vgpr() ? RegSpan::kVector : RegSpan::kScalar, operand.index, operand.dwords};
}

/// Passes of gfx950 that differ from gfx942's: f64 takes twice as many, f8f6f4 with an 8-bit operand too.
uint8_t passes_of(const Inst& inst, std::string_view name) {
    const bool is_mixed = name.find("f8f6f4") != name.npos && (inst.cbsz <= 1 || inst.blgp <= 1);
    const bool is_slow = is_mixed || (name.ends_with("f64") && name.find("16x16x4") != name.npos);
    return static_cast<uint8_t>(inst.target == Target::kGfx950 && is_slow ? 2 * inst.info->passes
                                                                          : inst.info->passes);
}

MatrixPipe pipe_of(std::string_view name) {
    if (name.ends_with("f64")) {
        return MatrixPipe::kDouble;
    }
    return name.ends_with("f32") && !name.ends_with("xf32") ? MatrixPipe::kSingle : MatrixPipe::kSmall;
}

}  // namespace

PipeTraits::PipeTraits(const Inst& one) : inst(&one) {
    switch (one.info->category) {
        case Category::kValu: case Category::kTrans: describe_vector(); break;
        case Category::kMfma: describe_matrix(); break;
        default:
            is_vector_memory(one.info->category) || one.info->category == Category::kLds ||
                    one.info->category == Category::kLdsNoReturn
                ? describe_memory()
                : describe_scalar();
    }
}

void PipeTraits::add(const Operand& operand, Port port) {
    const bool is_register = operand.is_vgpr() || (operand.is_sgpr() && operand.index < kM0Code);
    if (is_register && read_count < std::size(reads)) {
        reads[read_count++] = {register_span(operand), port};
    }
}

void PipeTraits::describe_vector() {
    const Inst& one = *inst;
    const std::string_view name = one.info->name;
    const bool is_read = name == "v_readlane_b32" || name == "v_readfirstlane_b32";
    const bool is_lane = is_read || name == "v_writelane_b32";
    const bool is_swap = name.starts_with("v_permlane");
    const bool is_gfx940 = one.target != Target::kGfx90a;
    unit = Unit::kVector;
    is_transcendental = one.info->category == Category::kTrans;
    is_dot = name.starts_with("v_dot");
    moves_bits = one.dst[0].is_vgpr() && one.info->encoding != Encoding::kVop3p &&
                 (one.sdwa.enabled ? one.sdwa.dst_sel != kDword : (one.op_sel & 8) != 0);
    writes_exec = writes_scalar(one, kExecCode);
    exec_delay = one.dpp.enabled ? 5 : (is_lane || is_swap) && is_gfx940 ? 4 : 0;
    const bool is_division = name.starts_with("v_div_fmas");
    for (unsigned i = 0; i < std::size(one.src); ++i) {
        const Operand& operand = one.src[i];
        if (operand.is_sgpr()) {
            const bool is_flag = is_division && operand.index == kVccCode;
            add(operand, is_lane && i == 1 ? Port::kLaneSelect : is_flag ? Port::kDivisionFlag : Port::kScalar);
        } else if (is_swap || (one.dpp.enabled && i == 0)) {
            add(operand, Port::kSwizzle);
        } else {
            add(operand, is_read ? Port::kLaneRead : is_dot && i == 2 ? Port::kDotSum : Port::kVector);
        }
    }
    if (is_division && reads_scalar(one, kVccCode) && read_count < std::size(reads)) {
        reads[read_count++] = {{RegSpan::kScalar, kVccCode, 2}, Port::kDivisionFlag};
    }
    if (is_swap || (one.info->flags & kDstIsRead)) {
        add(one.dst[0], is_swap ? Port::kSwizzle : is_dot ? Port::kDotSum : Port::kVector);
    }
}

void PipeTraits::describe_matrix() {
    const Inst& one = *inst;
    if (!one.dst[0]) {
        states = 0;  // v_mfma_ld_scale: one instruction with the operation behind it
    } else {
        unit = Unit::kMatrix;
        pipe = pipe_of(one.info->name);
        passes = passes_of(one, one.info->name);
    }
    const bool sums_into_result = (one.info->flags & kDstIsRead) != 0;
    for (unsigned i = 0; i < std::size(one.src); ++i) {
        add(one.src[i], i == 2 && one.dst[0] && !sums_into_result ? Port::kMatrixSum : Port::kMatrixFactor);
    }
    if (sums_into_result) {
        add(one.dst[0], Port::kMatrixSum);
    }
}

void PipeTraits::describe_memory() {
    const Inst& one = *inst;
    const bool is_lds = !is_vector_memory(one.info->category);
    for (const Operand& operand : one.src) {
        if (operand.is_vgpr() || (operand.is_sgpr() && !is_lds)) {
            add(operand, operand.is_vgpr() ? Port::kMemoryVector : Port::kMemoryScalar);
        }
    }
    reads_late_m0 = reads_scalar(one, kM0Code);
    const Category category = one.info->category;
    const bool stores = category != Category::kVmemLoad && category != Category::kFlatLoad && !is_lds;
    const bool is_buffer = one.info->encoding == Encoding::kMubuf || one.info->encoding == Encoding::kMtbuf;
    if (stores && one.src[1].is_vgpr() && one.src[1].dwords > 2 && !(is_buffer && one.src[3].is_sgpr())) {
        data = register_span(one.src[1]);
        data_delay = one.target == Target::kGfx90a ? 1 : 2;
    }
}

void PipeTraits::describe_scalar() {
    const Inst& one = *inst;
    const std::string_view name = one.info->name;
    writes_m0 = one.info->category == Category::kSalu && writes_scalar(one, kM0Code);
    sets_hwreg = name.starts_with("s_setreg");
    gets_hwreg = name.starts_with("s_getreg");
    reads_late_m0 = (one.info->category == Category::kMessage || name.starts_with("s_movrel")) &&
                    reads_scalar(one, kM0Code);
    if (name == "s_nop") {
        states = static_cast<uint8_t>((one.simm & 15) + 1);
    }
}

namespace {

unsigned vector_delay(const PipeTraits& producer, const PipeTraits& consumer, const PortRead& read) {
    const bool is_gfx940 = producer.inst->target != Target::kGfx90a;
    const unsigned plain = producer.is_dot ? 3 : 0;
    switch (read.port) {
        case Port::kVector: {
            const bool is_late = (producer.is_transcendental && !consumer.is_transcendental) || producer.moves_bits;
            return std::max(plain, is_late && is_gfx940 ? 1u : 0u);
        }
        case Port::kDotSum: return producer.inst->info == consumer.inst->info ? 0 : plain;
        case Port::kSwizzle: return std::max(plain, 2u);
        case Port::kLaneRead: return std::max(plain, is_gfx940 ? 1u : 0u);
        case Port::kMatrixFactor: case Port::kMatrixSum: return producer.is_dot ? 0 : 2;
        case Port::kMemoryVector: return 0;
        case Port::kScalar: return is_gfx940 ? 2 : 0;
        case Port::kLaneSelect: case Port::kDivisionFlag: return 4;
        case Port::kMemoryScalar: return 5;
    }
    return 0;
}

/// Until the result is in its registers.
unsigned matrix_result(const PipeTraits& producer, bool is_memory) {
    const unsigned passes = producer.passes;
    if (producer.pipe == MatrixPipe::kDouble) {
        return passes == 4 ? (is_memory ? 9 : 6) : (is_memory ? 18 : passes + 3);
    }
    const Target target = producer.inst->target;
    if (producer.pipe == MatrixPipe::kSingle && target != Target::kGfx90a) {
        return passes + 2;
    }
    return passes + (target == Target::kGfx950 && passes > 2 ? 4 : 3);
}

/// Until the next matrix operation can add to it. The same registers are handed on inside the pipeline.
unsigned matrix_sum(const PipeTraits& producer, const PipeTraits& consumer, const RegSpan& sum) {
    const unsigned passes = producer.passes;
    const bool is_gfx90a = producer.inst->target == Target::kGfx90a;
    const RegSpan result = register_span(producer.inst->dst[0]);
    if (result.first == sum.first && result.count == sum.count) {
        return producer.pipe == MatrixPipe::kDouble ? (passes == 4 ? 4 : 0) : passes == 2 && !is_gfx90a ? 2 : 0;
    }
    if (producer.pipe == MatrixPipe::kDouble) {
        return consumer.pipe != MatrixPipe::kDouble && is_gfx90a ? 0
               : consumer.pipe == MatrixPipe::kSmall             ? 0
               : passes == 4                                     ? 4
                                                                 : passes + 1;
    }
    if (is_gfx90a) {
        return passes;
    }
    if (producer.pipe == MatrixPipe::kSingle) {
        return consumer.pipe == MatrixPipe::kSmall ? 0 : passes;
    }
    return passes + 1;
}

}  // namespace

unsigned read_delay(const PipeTraits& producer, const PipeTraits& consumer, const PortRead& read) {
    if (producer.unit == Unit::kVector) {
        return vector_delay(producer, consumer, read);
    }
    if (producer.unit != Unit::kMatrix || read.span.file != RegSpan::kVector) {
        return 0;
    }
    return read.port == Port::kMatrixSum ? matrix_sum(producer, consumer, read.span)
                                         : matrix_result(producer, read.port == Port::kMemoryVector);
}

unsigned overwrite_delay(const PipeTraits& producer, const PipeTraits& consumer) {
    if (consumer.unit != Unit::kVector) {
        return 0;
    }
    if (producer.unit == Unit::kMatrix) {
        const bool is_large = producer.pipe == MatrixPipe::kDouble && producer.passes != 4;
        return is_large ? 11 : matrix_result(producer, false);
    }
    return producer.is_dot && producer.inst->info != consumer.inst->info ? 3 : 0;
}

unsigned sum_delay(const PipeTraits& producer) {
    const bool reads_late = producer.unit == Unit::kMatrix &&
                            (producer.pipe == MatrixPipe::kSmall ||
                             (producer.pipe == MatrixPipe::kSingle && producer.inst->target == Target::kGfx90a));
    return reads_late ? producer.passes - 1u : 0;
}

}  // namespace asmevo::emulator
