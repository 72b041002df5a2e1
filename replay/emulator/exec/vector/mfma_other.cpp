// Matrix instructions with f64 and i32 results, and the moves between architectural and
// accumulation registers.
#include <bit>
#include <cmath>
#include <cstring>

#include "exec/fault.h"
#include "exec/vector/mfma.h"

namespace asmevo::emulator {
namespace {

double read_double(const Wave& wave, uint16_t index, int lane) {
    const uint64_t bits = static_cast<uint64_t>(wave.lanes(static_cast<uint16_t>(index + 1))[lane])
                              << 32 |
                          wave.lanes(index)[lane];
    return std::bit_cast<double>(bits);
}

/// Inline constants of an f64 accumulator: codes 240 to 247 are ±0.5, ±1, ±2, ±4, 248 is 1/(2 pi);
/// the rest integers.
double inline_double(const Operand& c) {
    constexpr uint16_t kFirstFloat = 240, kInverseTwoPi = 248;
    if (c.index == kInverseTwoPi) {
        return std::bit_cast<double>(0x3fc45f306dc9c882ull);
    }
    if (c.index >= kFirstFloat && c.index < kInverseTwoPi) {
        constexpr double values[] = {0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0};
        return values[c.index - kFirstFloat];
    }
    return std::bit_cast<double>(static_cast<int64_t>(static_cast<int32_t>(c.constant)));
}

double negate_if(double value, bool negate) {
    return negate ? -value : value;
}

/// Lane that holds A's (or B's) element: `outer` is the row (or column).
int input_lane(const MatrixShape& shape, int outer, int block, int k) {
    return (k * shape.blocks + block) * shape.m + outer;
}

struct Integers {
    uint32_t a[kMaxMatrixElements], b[kMaxMatrixElements];
};

void unpack_bytes(const Wave& wave, uint16_t base, int k, int stride, int blgp, uint32_t* out) {
    const int per_lane = k * stride / kLanes;
    uint32_t bits[kLanes];
    for (int index = 0; index < per_lane; ++index) {
        extract_element(wave, base, Element::kI8, index, bits);
        for (int lane = 0; lane < kLanes; ++lane) {
            const int row = k_of(Element::kI8, per_lane, kLanes / stride, lane / stride, index);
            out[row * stride + lane % stride] = static_cast<uint32_t>(
                static_cast<int32_t>(static_cast<int8_t>(bits[blgp_lane(lane, blgp)])));
        }
    }
}

/// k of B for stored element `k` of A's row (see find_sparse_rows in mfma.cpp).
int sparse_row(const Wave& wave, const Inst& inst, const MatrixShape& shape, int row, int k) {
    const int per_lane = shape.a_k() * shape.m / kLanes, sets = 16 / per_lane;
    const int set = inst.cbsz == 0 ? inst.abid % sets : 0;
    const uint32_t index = wave.lanes(inst.src[2].index)[k / per_lane * shape.m + row];
    return k / 2 * 4 + static_cast<int>(index >> (2 * (set * per_lane + k % per_lane)) & 3);
}

}  // namespace

void run_matrix_f64(Wave& wave, const Inst& inst, const MatrixOp& op) {
    check_modifiers(inst, op);
    const MatrixShape& shape = op.shape;
    const int registers = shape.m * shape.n * shape.blocks / kLanes;
    const int negated = op.blgp_negates ? inst.blgp : 0;  // bit 0: A, bit 1: B, bit 2: C
    double a[kLanes], b[kLanes], result[4][kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
        a[lane] = negate_if(read_double(wave, inst.src[0].index, lane), (negated & 1) != 0);
        b[lane] = negate_if(read_double(wave, inst.src[1].index, lane), (negated & 2) != 0);
    }
    for (int reg = 0; reg < registers; ++reg) {
        const uint16_t c = static_cast<uint16_t>(inst.src[2].index + 2 * reg);
        for (int lane = 0; lane < kLanes; ++lane) {
            // D, one row (a register pair) at a time: 16x16 has column lane mod 16 and row
            // lane / 16 + 4 * reg.
            const int column = lane % shape.n, block = lane / shape.n % shape.blocks;
            const int row = lane / (shape.n * shape.blocks) + 4 * reg;
            double sum =
                inst.src[2].is_vgpr() ? read_double(wave, c, lane) : inline_double(inst.src[2]);
            sum = negate_if(sum, (negated & 4) != 0);
            for (int k = 0; k < shape.k; ++k) {
                sum = std::fma(a[input_lane(shape, row, block, k)],
                               b[input_lane(shape, column, block, k)], sum);
            }
            result[reg][lane] = sum;
        }
    }
    for (int reg = 0; reg < registers; ++reg) {
        for (int lane = 0; lane < kLanes; ++lane) {
            const uint64_t bits = std::bit_cast<uint64_t>(result[reg][lane]);
            wave.lanes(static_cast<uint16_t>(inst.dst[0].index + 2 * reg))[lane] =
                static_cast<uint32_t>(bits);
            wave.lanes(static_cast<uint16_t>(inst.dst[0].index + 2 * reg + 1))[lane] =
                static_cast<uint32_t>(bits >> 32);
        }
    }
}

/// Exact products, 32-bit sums that wrap.
void run_matrix_i8(Wave& wave, const Inst& inst, const MatrixOp& op) {
    check_modifiers(inst, op);
    const MatrixShape& shape = op.shape;
    const int stride_a = shape.stride_a(), stride_b = shape.stride_b();
    Integers in;
    unpack_bytes(wave, inst.src[0].index, shape.a_k(), stride_a, 0, in.a);
    unpack_bytes(wave, inst.src[1].index, shape.k, stride_b, op.allows_blgp ? inst.blgp : 0, in.b);
    const Operand& c = shape.is_sparse ? inst.dst[0] : inst.src[2];
    const int registers = shape.m * shape.n * shape.blocks / kLanes, width = shape.n;
    LaneArray result[32];
    for (int reg = 0; reg < registers; ++reg) {
        for (int lane = 0; lane < kLanes; lane += width) {
            const Position at = position_of(shape, reg, lane);
            uint32_t* sum = result[reg].lane + lane;
            for (int j = 0; j < width; ++j) {
                sum[j] = c.is_vgpr() ? wave.lanes(static_cast<uint16_t>(c.index + reg))[lane + j]
                                     : static_cast<uint32_t>(c.constant);
            }
            const uint32_t* a = in.a + broadcast_block(inst, op, at.block) * shape.m + at.row;
            for (int k = 0; k < shape.a_k(); ++k) {
                const int b_row = shape.is_sparse ? sparse_row(wave, inst, shape, at.row, k) : k;
                const uint32_t* b = in.b + b_row * stride_b + at.block * shape.n;
                for (int j = 0; j < width; ++j) {
                    sum[j] += a[k * stride_a] * b[j];
                }
            }
        }
    }
    for (int reg = 0; reg < registers; ++reg) {
        std::memcpy(wave.lanes(static_cast<uint16_t>(inst.dst[0].index + reg)), result[reg].lane,
                    sizeof result[reg].lane);
    }
}

}  // namespace asmevo::emulator
