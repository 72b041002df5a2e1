// Matrix instructions with f32 results: MFMA and SMFMAC. EXEC is ignored (CDNA3 ISA 7.1).
#include "exec/vector/mfma.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "exec/dispatch.h"
#include "exec/fault.h"

namespace asmevo::emulator {
namespace {

/// Working set of one instruction, kept between instructions of a thread: 64 KiB.
struct Workspace {
    MatrixOperand a, b;
    float a_lanes[64 *
                  4];  // 4x4 blocks: A's row of one D register, spread over the lanes, for each k
    int32_t a_lane_exponents[64 * 4];
    uint16_t b_rows[32][64];  // SMFMAC: for each row of A, the k that each stored element stands at
    float c[kLanes], constant_c[kLanes];
    float d[32][kLanes];
};

Workspace& workspace() {
    thread_local const std::unique_ptr<Workspace> space = std::make_unique<Workspace>();
    return *space;
}

/// CDNA2's 16-bit operands flush their denormals, whatever MODE says, to +0 (MMA-Sim, ftz_mul).
void flush_inputs(Element element, float* value) {
    const float smallest = element == Element::kF16 ? 0x1p-14f : 0x1p-126f;
    for (int lane = 0; lane < kLanes; ++lane) {
        value[lane] = std::abs(value[lane]) < smallest ? 0.0f : value[lane];
    }
}

struct OperandLayout {
    Element element;
    int k, stride, blgp;
};

void unpack(const Wave& wave, const Inst& inst, const MatrixOp& op, uint16_t base,
            const OperandLayout& layout, MatrixOperand& out) {
    out.stride = layout.stride;
    out.has_special = false;
    const int per_lane = layout.k * layout.stride / kLanes;
    uint32_t bits[kLanes], permuted[kLanes];
    float value[kLanes];
    int32_t exponent[kLanes];
    for (int index = 0; index < per_lane; ++index) {
        extract_element(wave, base, layout.element, index, bits);
        if (layout.blgp != 0) {
            for (int lane = 0; lane < kLanes; ++lane) {
                permuted[lane] = bits[blgp_lane(lane, layout.blgp)];
            }
            std::memcpy(bits, permuted, sizeof bits);
        }
        decode_elements(layout.element, inst.target, bits, value, exponent, out.has_special);
        if (op.arithmetic == Arithmetic::kFlushed) {
            flush_inputs(layout.element, value);
        }
        for (int first = 0; first < kLanes; first += layout.stride) {
            const int k = k_of(layout.element, per_lane, kLanes / layout.stride,
                               first / layout.stride, index);
            std::memcpy(out.value + k * layout.stride, value + first,
                        sizeof(float) * layout.stride);
            std::memcpy(out.exponent + k * layout.stride, exponent + first,
                        sizeof(int32_t) * layout.stride);
        }
    }
}

/// Multiplies each block of 32 k by its power of two. The products stay exact: the scaled values
/// are still f32.
void apply_scale(const uint8_t* scale, MatrixOperand& operand) {
    constexpr int kBlock = 32, kBias = 127, kNan = 255, kLargest = 126;
    for (int lane = 0; lane < kLanes; ++lane) {
        const int outer = lane % operand.stride, first = lane / operand.stride * kBlock;
        const int power = scale[lane] - kBias;
        for (int k = first; k < first + kBlock; ++k) {
            const int at = k * operand.stride + outer;
            if (scale[lane] == kNan) {
                operand.value[at] = std::numeric_limits<float>::quiet_NaN();
                operand.has_special = true;
            } else if (operand.exponent[at] != kZeroExponent) {
                operand.exponent[at] += power;
                operand.value[at] = std::ldexp(operand.value[at], power);
                if (operand.exponent[at] > kLargest) {
                    throw Fault("a scaled matrix element of 2^127 or more is not implemented");
                }
            }
        }
    }
}

void dot(Arithmetic arithmetic, const DotInputs& in, const float* c, float* d) {
    switch (arithmetic) {
        case Arithmetic::kTruncated:
            dot_truncated(in, c, d);
            return;
        case Arithmetic::kTruncatedPair:
            dot_truncated_pair(in, c, d);
            return;
        default:
            dot_flushed(in, c, d);
            return;
    }
}

/// Spreads A over the lanes of D register `reg` of a 4x4 shape, where each four lanes have a block
/// of their own.
void spread_a(const Inst& inst, const MatrixOp& op, int reg, Workspace& space) {
    for (int k = 0; k < op.shape.k; ++k) {
        for (int lane = 0; lane < kLanes; ++lane) {
            const int at = k * space.a.stride + broadcast_block(inst, op, lane / 4) * 4 + reg;
            space.a_lanes[k * kLanes + lane] = space.a.value[at];
            space.a_lane_exponents[k * kLanes + lane] = space.a.exponent[at];
        }
    }
}

void compute_register(const Wave& wave, const Inst& inst, const MatrixOp& op, int reg,
                      Workspace& space) {
    const MatrixShape& shape = op.shape;
    const bool is_small = shape.n == 4;
    if (is_small) {
        spread_a(inst, op, reg, space);
    }
    const Operand& c = shape.is_sparse ? inst.dst[0] : inst.src[2];
    const float* accumulator = space.constant_c;
    const int width = is_small ? kLanes : shape.n;
    for (int lane = 0; lane < kLanes; lane += width) {
        const Position at = position_of(shape, reg, lane);
        const int a_at = is_small ? lane : broadcast_block(inst, op, at.block) * shape.m + at.row;
        const int b_at = at.block * shape.n + at.column;
        const DotInputs in{
            .a_value = (is_small ? space.a_lanes : space.a.value) + a_at,
            .a_exponent = (is_small ? space.a_lane_exponents : space.a.exponent) + a_at,
            .b_value = space.b.value + b_at,
            .b_exponent = space.b.exponent + b_at,
            .b_row = shape.is_sparse ? space.b_rows[at.row] : nullptr,
            .a_stride = is_small ? kLanes : space.a.stride,
            .b_stride = space.b.stride,
            .lanes = width,
            .k = shape.a_k(),
            .group = op.group,
            .a_is_uniform = !is_small,
            .has_special = space.a.has_special || space.b.has_special,
        };
        if (c.is_vgpr()) {
            std::memcpy(space.c, wave.lanes(static_cast<uint16_t>(c.index + reg)) + lane,
                        sizeof(float) * static_cast<size_t>(width));
            accumulator = space.c;
        }
        dot(op.arithmetic, in, accumulator, space.d[reg] + lane);
    }
}

}  // namespace

/// SMFMAC, 4:2 sparsity: stored element e of a lane is element 2-bit-index of its group of four.
/// With cbsz = 0, abid chooses the set of indices inside the register; otherwise the first set
/// counts (CDNA3 ISA 7.4).
void find_sparse_rows(const Wave& wave, const Inst& inst, const MatrixOp& op,
                      uint16_t rows[32][64]) {
    const int per_lane = op.shape.a_k() * op.shape.m / kLanes, sets = 16 / per_lane;
    const int set = inst.cbsz == 0 ? inst.abid % sets : 0;
    const uint32_t* index = wave.lanes(inst.src[2].index);
    for (int lane = 0; lane < kLanes; ++lane) {
        const int row = lane % op.shape.m, first = lane / op.shape.m * per_lane;
        for (int e = 0; e < per_lane; ++e) {
            const uint32_t select = index[lane] >> (2 * (set * per_lane + e)) & 3;
            rows[row][first + e] =
                static_cast<uint16_t>((first + e) / 2 * 4 + static_cast<int>(select));
        }
    }
}

int broadcast_block(const Inst& inst, const MatrixOp& op, int block) {
    if (!op.allows_broadcast || inst.cbsz == 0) {
        return block;
    }
    return (block >> inst.cbsz << inst.cbsz) + inst.abid;
}

int blgp_lane(int lane, int blgp) {
    switch (blgp) {
        case 1:
            return lane % 32;
        case 2:
            return lane % 32 + 32;
        case 3:
            return (lane + 16) % kLanes;
        case 4:
        case 5:
        case 6:
        case 7:
            return lane % 16 + 16 * (blgp - 4);
        default:
            return lane;
    }
}

void check_modifiers(const Inst& inst, const MatrixOp& op) {
    if (!inst.src[0].is_vgpr() || !inst.src[1].is_vgpr()) {
        throw Fault("a matrix instruction takes A and B from vector registers");
    }
    const Operand& c = inst.src[2];
    if (!c.is_vgpr() && (c.kind != OperandKind::kConst || op.shape.is_sparse)) {
        throw Fault("a matrix instruction takes C from vector registers or an inline constant");
    }
    if (op.shape.is_sparse) {
        return;
    }
    const bool broadcasts = inst.cbsz != 0 || inst.abid != 0;
    if (broadcasts &&
        (!op.allows_broadcast || 1 << inst.cbsz > op.shape.blocks || inst.abid >= 1 << inst.cbsz)) {
        throw Fault("cbsz and abid name no block of this matrix instruction");
    }
    if (inst.blgp != 0 && !op.allows_blgp && !op.blgp_negates) {
        throw Fault("this matrix instruction has no blgp");
    }
}

void run_matrix(Wave& wave, const Inst& inst, const MatrixOp& op, const uint8_t* scale_a,
                const uint8_t* scale_b) {
    check_modifiers(inst, op);
    if (op.arithmetic == Arithmetic::kFma || wave.group->dispatch->options->fast_matrix) {
        run_matrix_fast(wave, inst, op, scale_a, scale_b);
        return;
    }
    Workspace& space = workspace();
    const MatrixShape& shape = op.shape;
    unpack(wave, inst, op, inst.src[0].index, {op.a, shape.a_k(), shape.stride_a(), 0}, space.a);
    unpack(wave, inst, op, inst.src[1].index,
           {op.b, shape.k, shape.stride_b(), op.allows_blgp ? inst.blgp : 0}, space.b);
    if (scale_a != nullptr) {
        apply_scale(scale_a, space.a);
        apply_scale(scale_b, space.b);
    }
    if (shape.is_sparse) {
        find_sparse_rows(wave, inst, op, space.b_rows);
    }
    if (!inst.src[2].is_vgpr()) {
        std::fill_n(space.constant_c, kLanes,
                    std::bit_cast<float>(static_cast<uint32_t>(inst.src[2].constant)));
    }
    const int registers = shape.m * shape.n * shape.blocks / kLanes;
    for (int reg = 0; reg < registers; ++reg) {
        compute_register(wave, inst, op, reg, space);
    }
    // D may overlap C at another place: nothing is written before everything is read.
    for (int reg = 0; reg < registers; ++reg) {
        std::memcpy(wave.lanes(static_cast<uint16_t>(inst.dst[0].index + reg)), space.d[reg],
                    sizeof space.d[reg]);
    }
}

}  // namespace asmevo::emulator
