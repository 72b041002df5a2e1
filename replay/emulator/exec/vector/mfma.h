// Matrix instructions: what the parts of the MFMA implementation share.
//
// An instruction runs in three steps: unpack A and B from registers into per-k rows, compute D row
// piece by row piece (eight lanes at a time), write D back. Layouts are those of AMD's matrix
// instruction calculator; the arithmetic is in mfma_dot.cpp.
#pragma once

#include <cstdint>

#include "exec/wave.h"
#include "isa/op_info.h"

namespace asmevo::emulator {

enum class Element : uint8_t { kF32, kF64, kXf32, kF16, kBf16, kFp8, kBf8, kFp6, kBf6, kFp4, kI8 };

/// How products are summed (reference page cdna3_facts, section 6.3).
enum class Arithmetic : uint8_t {
    kFma,            // f32, f64: fused multiply-add, k after k
    kTruncated,      // CDNA3 f16, bf16, xf32: aligned groups, truncation, one rounding
    kTruncatedPair,  // CDNA3 8-bit floats: even and odd k apart
    kFlushed,        // CDNA2 f16, bf16: plain f32 additions in pairs, denormals flushed
    kInteger,
};

struct MatrixShape {
    uint16_t m, n, k;  // k: of the whole product, for SMFMAC the uncompressed one
    uint8_t blocks;
    bool is_sparse = false;

    constexpr int a_k() const { return is_sparse ? k / 2 : k; }
    constexpr int stride_a() const { return m * blocks; }  // lanes that hold one k of A
    constexpr int stride_b() const { return n * blocks; }
};

struct MatrixOp {
    MatrixShape shape;
    Element a, b;
    Arithmetic arithmetic;
    uint8_t group = 1;              // products summed before the accumulator joins
    bool allows_broadcast = false;  // cbsz and abid name a block of A
    bool allows_blgp = false;       // blgp permutes the lanes of B
    bool blgp_negates = false;      // f64 on gfx940 and later
};

constexpr int kMaxMatrixElements = 2048;  // 16x16x128 and 32x32x64: M * K
constexpr int32_t kZeroExponent = -1000;  // of a zero: below every product of real operands

/// A or B, one row of stride() elements for each k. Exponents are those of the unnormalised
/// significand: a denormal has the format's smallest exponent (MMA-Sim, frexp_and_normalize).
struct MatrixOperand {
    alignas(32) float value[kMaxMatrixElements];
    alignas(32) int32_t exponent[kMaxMatrixElements];
    bool has_special = false;  // an infinity or NaN stands somewhere
    int stride = 0;
};

/// Bits of element `index` of each lane, from the registers starting at `base`.
void extract_element(const Wave& wave, uint16_t base, Element element, int index,
                     uint32_t out[kLanes]);
constexpr int element_bits(Element element) {
    switch (element) {
        case Element::kF64:
            return 64;
        case Element::kF32:
        case Element::kXf32:
            return 32;
        case Element::kF16:
        case Element::kBf16:
            return 16;
        case Element::kFp6:
        case Element::kBf6:
            return 6;
        case Element::kFp4:
            return 4;
        default:
            return 8;
    }
}

/// Decodes 64 elements to values and exponents.
void decode_elements(Element element, Target target, const uint32_t bits[kLanes], float* value,
                     int32_t* exponent, bool& has_special);

/// Decodes 64 elements to values alone.
void decode_values(Element element, Target target, const uint32_t bits[kLanes], float* value);

/// Inputs of a run of dot products: `lanes` lanes of a D register (a multiple of 8), all k. Row k
/// of A starts at a + k * a_stride; with `a_is_uniform` only its first element counts, for all
/// lanes. Row b_row[k] belongs to k, or row k without b_row.
struct DotInputs {
    const float* a_value;
    const int32_t* a_exponent;
    const float* b_value;
    const int32_t* b_exponent;
    const uint16_t* b_row;
    int a_stride, b_stride;
    int lanes;
    int k;
    int group;
    bool a_is_uniform;
    bool has_special;
};

/// d[lane] = sum over k of a * b, starting from c[lane].
void dot_truncated(const DotInputs& in, const float* c, float* d);
void dot_truncated_pair(const DotInputs& in, const float* c, float* d);
void dot_flushed(const DotInputs& in, const float* c, float* d);

/// The exact model for one element, in scalar code: every special case. `pair` selects
/// kTruncatedPair.
float dot_reference(const DotInputs& in, int lane, float c, bool pair);

/// k of an operand's element: `index` of those that one lane holds, in lane group `group` of
/// `groups`. More than 16 elements of 8 bits stand in pieces of 16 that alternate between the
/// groups (gfx950; narrower ones do not).
constexpr int k_of(Element element, int per_lane, int groups, int group, int index) {
    if (per_lane > 16 && element_bits(element) >= 8) {
        return (index / 16 * groups + group) * 16 + index % 16;
    }
    return group * per_lane + index;
}

/// `scale_a` and `scale_b`: per lane, the biased exponent (e8m0) of the lane's row and block of 32
/// k; or null.
void run_matrix(Wave& wave, const Inst& inst, const MatrixOp& op, const uint8_t* scale_a = nullptr,
                const uint8_t* scale_b = nullptr);
/// The same as plain fused multiply-adds. Exact for f32 operands, an approximation for the others.
void run_matrix_fast(Wave& wave, const Inst& inst, const MatrixOp& op, const uint8_t* scale_a,
                     const uint8_t* scale_b);
void run_matrix_f64(Wave& wave, const Inst& inst, const MatrixOp& op);
void run_matrix_i8(Wave& wave, const Inst& inst, const MatrixOp& op);

/// SMFMAC, 4:2 sparsity: for each row of A the k that each of its stored elements stands at.
void find_sparse_rows(const Wave& wave, const Inst& inst, const MatrixOp& op, uint16_t rows[32][64]);

/// A's block after cbsz/abid: one block of each 2^cbsz stands for all of them.
int broadcast_block(const Inst& inst, const MatrixOp& op, int block);
/// Lane of B that takes part for `lane` after blgp.
int blgp_lane(int lane, int blgp);
/// Refuses modifiers that the instruction does not have, and A or B outside VGPRs.
void check_modifiers(const Inst& inst, const MatrixOp& op);

/// Row, column and block of D that register `reg` holds in `lane` (32-bit D).
struct Position {
    int row, column, block;
};
constexpr Position position_of(const MatrixShape& shape, int reg, int lane) {
    if (shape.n == 32) {
        return {8 * (reg / 4 % 4) + 4 * (lane / 32) + reg % 4, lane % 32, reg / 16};
    }
    if (shape.n == 16) {
        return {4 * (lane / 16) + reg % 4, lane % 16, reg / 4};
    }
    return {reg, lane % 4, lane / 4};
}

}  // namespace asmevo::emulator
