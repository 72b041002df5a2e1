// Matrix instructions with f32 results as plain fused multiply-adds, k after k, four rows of D at a time.
//
// That is what f32 operands get on hardware too, so they always run here. For the others it is the approximate mode
// that must be asked for (DispatchOptions::fast_matrix): it neither truncates nor groups products as CDNA does, keeps
// denormals, and its last bits differ.
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "exec/vector/mfma.h"

namespace asmevo::emulator {
namespace {

constexpr int kMaxRegisters = 32, kRows = 4, kColumns = 16;

struct Workspace {
    alignas(64) float a[kMaxMatrixElements];
    alignas(64) float b[kMaxMatrixElements];
    uint16_t b_rows[32][64];
    alignas(64) float c[kLanes];
    LaneArray d[kMaxRegisters];
};

Workspace& workspace() {
    thread_local const std::unique_ptr<Workspace> space = std::make_unique<Workspace>();
    return *space;
}

/// Row k of the operand is at out + k * stride.
void unpack(const Wave& wave, const Inst& inst, const Operand& source, Element element, int k_count, int stride,
            int blgp, float* out) {
    const int per_lane = k_count * stride / kLanes, groups = kLanes / stride;
    const bool flushes = element == Element::kF32 && (wave.mode >> 4 & 1) == 0;
    alignas(32) uint32_t bits[kLanes], permuted[kLanes];
    alignas(32) float value[kLanes];
    for (int index = 0; index < per_lane; ++index) {
        extract_element(wave, source.index, element, index, bits);
        if (blgp != 0) {
            for (int lane = 0; lane < kLanes; ++lane) {
                permuted[lane] = bits[blgp_lane(lane, blgp)];
            }
            std::memcpy(bits, permuted, sizeof bits);
        }
        decode_values(element, inst.target, bits, value);
        for (int lane = 0; flushes && lane < kLanes; ++lane) {
            value[lane] = std::fabs(value[lane]) < 0x1p-126f ? std::copysign(0.0f, value[lane]) : value[lane];
        }
        for (int group = 0; group < groups; ++group) {
            const int k = k_of(element, per_lane, groups, group, index);
            std::memcpy(out + k * stride, value + group * stride, sizeof(float) * static_cast<size_t>(stride));
        }
    }
}

void apply_scale(const uint8_t* scale, int stride, float* operand) {
    constexpr int kBlock = 32, kBias = 127, kNan = 255;
    for (int lane = 0; lane < kLanes; ++lane) {
        const int outer = lane % stride, first = lane / stride * kBlock;
        const float factor = scale[lane] == kNan ? std::numeric_limits<float>::quiet_NaN()
                                                 : std::ldexp(1.0f, scale[lane] - kBias);
        for (int k = first; k < first + kBlock; ++k) {
            operand[k * stride + outer] *= factor;
        }
    }
}

/// Inputs of four rows of D, 16 columns of them: row k of A is at a + k * a_stride.
struct Tile {
    const float *a, *b;
    int a_stride, b_stride, k;
};

void multiply_tile(const Tile& tile, const float* const c[kRows], float* const d[kRows]) {
    __m256 sum[kRows][2];
    for (int row = 0; row < kRows; ++row) {
        sum[row][0] = _mm256_loadu_ps(c[row]);
        sum[row][1] = _mm256_loadu_ps(c[row] + 8);
    }
    const float *a = tile.a, *b = tile.b;
    for (int k = 0; k < tile.k; ++k, a += tile.a_stride, b += tile.b_stride) {
        const __m256 first = _mm256_loadu_ps(b), second = _mm256_loadu_ps(b + 8);
        for (int row = 0; row < kRows; ++row) {
            const __m256 factor = _mm256_broadcast_ss(a + row);
            sum[row][0] = _mm256_fmadd_ps(factor, first, sum[row][0]);
            sum[row][1] = _mm256_fmadd_ps(factor, second, sum[row][1]);
        }
    }
    for (int row = 0; row < kRows; ++row) {
        _mm256_storeu_ps(d[row], sum[row][0]);
        _mm256_storeu_ps(d[row] + 8, sum[row][1]);
    }
}

/// One row of a sparse product: stored element e of A meets row b_row[e] of B.
void multiply_sparse_row(const Tile& tile, const uint16_t* b_row, const float* c, float* d) {
    __m256 first = _mm256_loadu_ps(c), second = _mm256_loadu_ps(c + 8);
    for (int e = 0; e < tile.k; ++e) {
        const __m256 factor = _mm256_broadcast_ss(tile.a + e * tile.a_stride);
        const float* b = tile.b + b_row[e] * tile.b_stride;
        first = _mm256_fmadd_ps(factor, _mm256_loadu_ps(b), first);
        second = _mm256_fmadd_ps(factor, _mm256_loadu_ps(b + 8), second);
    }
    _mm256_storeu_ps(d, first);
    _mm256_storeu_ps(d + 8, second);
}

/// Accumulator of D register `reg` from `lane` on.
const float* accumulator(const Wave& wave, const Operand& c, const Workspace& space, int reg, int lane) {
    if (!c.is_vgpr()) {
        return space.c + lane;
    }
    return reinterpret_cast<const float*>(wave.lanes(static_cast<uint16_t>(c.index + reg))) + lane;
}

/// Registers reg to reg + 3: four rows of D in each run of n lanes.
void compute_rows(const Wave& wave, const Inst& inst, const MatrixOp& op, const Operand& c_operand, int reg,
                  Workspace& space) {
    const MatrixShape& shape = op.shape;
    for (int lane = 0; lane < kLanes; lane += kColumns) {
        const Position at = position_of(shape, reg, lane);
        const int block = broadcast_block(inst, op, at.block);
        Tile tile{space.a + block * shape.m + at.row, space.b + at.block * shape.n + at.column,
                  shape.stride_a(), shape.stride_b(), shape.a_k()};
        const float* c[kRows];
        float* d[kRows];
        for (int row = 0; row < kRows; ++row) {
            c[row] = accumulator(wave, c_operand, space, reg + row, lane);
            d[row] = reinterpret_cast<float*>(space.d[reg + row].lane) + lane;
        }
        if (!shape.is_sparse) {
            multiply_tile(tile, c, d);
            continue;
        }
        for (int row = 0; row < kRows; ++row, ++tile.a) {
            multiply_sparse_row(tile, space.b_rows[at.row + row], c[row], d[row]);
        }
    }
}

/// 4x4 shapes: each four lanes have a block of their own, so A's row is spread over the lanes.
void compute_small(const Wave& wave, const Inst& inst, const MatrixOp& op, const Operand& c, int reg,
                   Workspace& space) {
    float* d = reinterpret_cast<float*>(space.d[reg].lane);
    for (int lane = 0; lane < kLanes; lane += 8) {
        const float* low = space.a + broadcast_block(inst, op, lane / 4) * 4 + reg;
        const float* high = space.a + broadcast_block(inst, op, lane / 4 + 1) * 4 + reg;
        __m256 sum = _mm256_loadu_ps(accumulator(wave, c, space, reg, lane));
        for (int k = 0; k < op.shape.k; ++k) {
            const int at = k * kLanes;
            const __m256 factor = _mm256_set_m128(_mm_broadcast_ss(high + at), _mm_broadcast_ss(low + at));
            sum = _mm256_fmadd_ps(factor, _mm256_loadu_ps(space.b + at + lane), sum);
        }
        _mm256_storeu_ps(d + lane, sum);
    }
}

}  // namespace

void run_matrix_fast(Wave& wave, const Inst& inst, const MatrixOp& op, const uint8_t* scale_a,
                     const uint8_t* scale_b) {
    Workspace& space = workspace();
    const MatrixShape& shape = op.shape;
    unpack(wave, inst, inst.src[0], op.a, shape.a_k(), shape.stride_a(), 0, space.a);
    unpack(wave, inst, inst.src[1], op.b, shape.k, shape.stride_b(), op.allows_blgp ? inst.blgp : 0, space.b);
    if (scale_a != nullptr) {
        apply_scale(scale_a, shape.stride_a(), space.a);
        apply_scale(scale_b, shape.stride_b(), space.b);
    }
    if (shape.is_sparse) {
        find_sparse_rows(wave, inst, op, space.b_rows);
    }
    const Operand& c = shape.is_sparse ? inst.dst[0] : inst.src[2];
    if (!c.is_vgpr()) {
        std::fill_n(space.c, kLanes, std::bit_cast<float>(static_cast<uint32_t>(c.constant)));
    }
    const int registers = shape.m * shape.n * shape.blocks / kLanes;
    if (shape.n == 4) {
        for (int reg = 0; reg < registers; ++reg) {
            compute_small(wave, inst, op, c, reg, space);
        }
    } else {
        for (int reg = 0; reg < registers; reg += kRows) {
            compute_rows(wave, inst, op, c, reg, space);
        }
    }
    // D may overlap a source: nothing is written before everything is read.
    for (int reg = 0; reg < registers; ++reg) {
        std::memcpy(wave.lanes(static_cast<uint16_t>(inst.dst[0].index + reg)), space.d[reg].lane, sizeof(LaneArray));
    }
}

}  // namespace asmevo::emulator
