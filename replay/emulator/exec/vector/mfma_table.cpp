// Table of matrix instructions and of the moves to and from accumulation registers. Passes are
// those of AMD's matrix instruction calculator (cycles / 4); gfx950's own shapes have LLVM's
// (SISchedule.td).
#include "exec/fault.h"
#include "exec/join_rows.h"
#include "exec/vector/mfma.h"
#include "isa/tables.h"

namespace asmevo::emulator {
namespace {

using enum Element;

constexpr MatrixShape shape_of(int m, int n, int k, int blocks) {
    return {static_cast<uint16_t>(m), static_cast<uint16_t>(n), static_cast<uint16_t>(k),
            static_cast<uint8_t>(blocks)};
}

// cbsz/abid exist only where there are several blocks; blgp there too and on all f32 forms (and on
// all of CDNA2's).
constexpr MatrixOp f32(int m, int n, int k, int blocks) {
    return {.shape = shape_of(m, n, k, blocks),
            .a = kF32,
            .b = kF32,
            .arithmetic = Arithmetic::kFma,
            .allows_broadcast = blocks > 1,
            .allows_blgp = true};
}
constexpr MatrixOp f64(int m, int n, int k, int blocks, bool blgp_negates = false) {
    return {.shape = shape_of(m, n, k, blocks),
            .a = kF64,
            .b = kF64,
            .arithmetic = Arithmetic::kFma,
            .blgp_negates = blgp_negates};
}
constexpr MatrixOp xf32(int m, int n, int k) {
    return {.shape = shape_of(m, n, k, 1),
            .a = kXf32,
            .b = kXf32,
            .arithmetic = Arithmetic::kTruncated,
            .group = 4};
}
constexpr MatrixOp half(int m, int n, int k, int blocks, Element element) {
    return {.shape = shape_of(m, n, k, blocks),
            .a = element,
            .b = element,
            .arithmetic = Arithmetic::kTruncated,
            .group = 8,
            .allows_broadcast = blocks > 1,
            .allows_blgp = blocks > 1};
}
constexpr MatrixOp flushed(int m, int n, int k, int blocks, Element element, int group) {
    return {.shape = shape_of(m, n, k, blocks),
            .a = element,
            .b = element,
            .arithmetic = Arithmetic::kFlushed,
            .group = static_cast<uint8_t>(group),
            .allows_broadcast = blocks > 1,
            .allows_blgp = true};
}
constexpr MatrixOp float8(int m, int n, int k, Element a, Element b) {
    return {.shape = shape_of(m, n, k, 1),
            .a = a,
            .b = b,
            .arithmetic = Arithmetic::kTruncatedPair,
            .group = 16};
}
constexpr MatrixOp bytes(int m, int n, int k, int blocks, bool is_cdna2 = false) {
    return {.shape = shape_of(m, n, k, blocks),
            .a = kI8,
            .b = kI8,
            .arithmetic = Arithmetic::kInteger,
            .allows_broadcast = blocks > 1,
            .allows_blgp = is_cdna2 || blocks > 1};
}
constexpr MatrixOp sparse(MatrixOp op) {
    op.shape.is_sparse = true;
    return op;
}

template <MatrixOp Op>
void run(Wave& wave, const Inst& inst) {
    static constexpr MatrixOp op = Op;
    if constexpr (Op.arithmetic == Arithmetic::kInteger) {
        run_matrix_i8(wave, inst, op);
    } else if constexpr (Op.a == kF64) {
        run_matrix_f64(wave, inst, op);
    } else {
        run_matrix(wave, inst, op);
    }
}

/// v_mfma_ld_scale_b32: the first half of v_mfma_scale_*, which the assembler writes as one
/// instruction. A byte of each register, chosen by op_sel and op_sel_hi, scales the f8f6f4
/// operation that follows.
void load_scale(Wave& wave, const Inst& inst) {
    for (int which = 0; which < 2; ++which) {
        const Operand& source = inst.src[which];
        const uint32_t uniform = source.is_vgpr() ? 0 : read_scalar32(wave, source);
        const unsigned byte = (source.op_sel_hi ? 2 : 0) + (source.op_sel ? 1 : 0);
        for (int lane = 0; lane < kLanes; ++lane) {
            const uint32_t value = source.is_vgpr() ? wave.lanes(source.index)[lane] : uniform;
            wave.matrix_scale[which][lane] = static_cast<uint8_t>(value >> (8 * byte));
        }
    }
    wave.has_matrix_scale = true;
}

/// gfx950 f8f6f4: cbsz and blgp choose the formats of A and B.
template <MatrixOp Op>
void run_f8f6f4(Wave& wave, const Inst& inst) {
    constexpr Element formats[] = {kFp8, kBf8, kFp6, kBf6, kFp4};
    if (inst.cbsz > 4 || inst.blgp > 4) {
        throw Fault("reserved element format of an f8f6f4 matrix instruction");
    }
    MatrixOp op = Op;
    op.a = formats[inst.cbsz];
    op.b = formats[inst.blgp];
    Inst plain = inst;
    plain.cbsz = plain.abid = plain.blgp = 0;
    if (wave.has_matrix_scale) {
        wave.has_matrix_scale = false;
        run_matrix(wave, plain, op, wave.matrix_scale[0], wave.matrix_scale[1]);
    } else {
        run_matrix(wave, plain, op);
    }
}

constexpr Type registers(int dwords) {
    switch (dwords) {
        case 1:
            return Type::kB32;
        case 2:
            return Type::kB64;
        case 4:
            return Type::kB128;
        case 8:
            return Type::kB256;
        case 16:
            return Type::kB512;
        default:
            return Type::kB1024;
    }
}

/// What is known of an operation's sums. MMA-Sim measured the dense ones on CDNA2 and CDNA3; integers are exact anyway.
constexpr OpInfo with_exactness(OpInfo row, const MatrixOp& op) {
    if (op.arithmetic == Arithmetic::kInteger) {
        return row;
    }
    if (op.shape.is_sparse) {
        return approximate(row, "assumed to sum its stored elements in the groups of the dense instruction; no "
                                "measurement is published");
    }
    if ((row.targets & kGfx950Bit) == 0) {
        return row;
    }
    return approximate(row, "assumed to sum as on gfx942; no measurement of gfx950 is published", kGfx950Bit);
}

template <MatrixOp Op>
constexpr OpInfo row_with(const char* name, uint16_t opcode, TargetMask targets, int passes,
                          Handler handler) {
    constexpr MatrixShape s = Op.shape;
    constexpr int bits = element_bits(Op.a), result_dwords = Op.a == kF64 ? 2 : 1;
    constexpr Type a = registers(s.a_k() * s.stride_a() * bits / (kLanes * 32));
    constexpr Type b = registers(s.k * s.stride_b() * bits / (kLanes * 32));
    constexpr int d_dwords = s.m * s.n * s.blocks * result_dwords / kLanes;
    // A two-register accumulator is always one f64: inline constants are doubles there.
    constexpr Type d = d_dwords == 2 ? Type::kF64 : registers(d_dwords);
    constexpr uint32_t mode = Op.a == kF32 ? kReadsMode : kNoFlags;
    const OpInfo plain{
        .name = name,
        .encoding = Encoding::kVop3p,
        .opcode = opcode,
        .targets = targets,
        .category = Category::kMfma,
        .dst = {d, Type::kNone},
        .src = {a, b, s.is_sparse ? Type::kB32 : d, Type::kNone},
        .flags = kIgnoresExec | mode | (s.is_sparse ? kDstIsRead : kNoFlags),
        .run = handler,
        .passes = static_cast<uint8_t>(passes),
    };
    return with_exactness(plain, Op);
}

template <MatrixOp Op>
constexpr OpInfo row(const char* name, uint16_t opcode, TargetMask targets, int passes) {
    return row_with<Op>(name, opcode, targets, passes, run<Op>);
}

template <MatrixOp Op>
constexpr OpInfo scaled_row(const char* name, uint16_t opcode, int passes) {
    return row_with<Op>(name, opcode, kGfx950Bit, passes, run_f8f6f4<Op>);
}

void move_register(Wave& wave, const Inst& inst) {
    uint32_t* target = wave.lanes(inst.dst[0].index);
    const uint32_t* lanes = inst.src[0].is_vgpr() ? wave.lanes(inst.src[0].index) : nullptr;
    const uint32_t uniform = lanes == nullptr ? read_scalar32(wave, inst.src[0]) : 0;
    const uint64_t exec = wave.exec();
    for (int lane = 0; lane < kLanes; ++lane) {
        if ((exec >> lane & 1) != 0) {
            target[lane] = lanes != nullptr ? lanes[lane] : uniform;
        }
    }
}

constexpr OpInfo move_row(const char* name, Encoding encoding, uint16_t opcode) {
    return OpInfo{.name = name,
                  .encoding = encoding,
                  .opcode = opcode,
                  .targets = kAllTargets,
                  .category = Category::kValu,
                  .dst = {Type::kB32, Type::kNone},
                  .src = {Type::kB32, Type::kNone, Type::kNone, Type::kNone},
                  .flags = encoding == Encoding::kVop1 ? kNoVop3 : kNoFlags,
                  .run = move_register};
}

constexpr OpInfo kMovesAndScale[] = {
    OpInfo{.name = "v_mfma_ld_scale_b32",
           .encoding = Encoding::kVop3p,
           .opcode = 0x2c,
           .targets = kGfx950Bit,
           .category = Category::kMfma,
           .dst = {},
           .src = {Type::kB32, Type::kB32, Type::kNone, Type::kNone},
           .flags = kIgnoresExec | kPackedModifiers,
           .run = load_scale},
    move_row("v_accvgpr_mov_b32", Encoding::kVop1, 0x52),
    move_row("v_accvgpr_read_b32", Encoding::kVop3p, 0x58),
    move_row("v_accvgpr_write_b32", Encoding::kVop3p, 0x59),
};

constexpr OpInfo kCdna2[] = {
    row<f32(32, 32, 1, 2)>("v_mfma_f32_32x32x1f32", 0x40, kGfx90aBit, 16),
    row<f32(16, 16, 1, 4)>("v_mfma_f32_16x16x1f32", 0x41, kGfx90aBit, 8),
    row<f32(4, 4, 1, 16)>("v_mfma_f32_4x4x1f32", 0x42, kGfx90aBit, 2),
    row<f32(32, 32, 2, 1)>("v_mfma_f32_32x32x2f32", 0x44, kGfx90aBit, 16),
    row<f32(16, 16, 4, 1)>("v_mfma_f32_16x16x4f32", 0x45, kGfx90aBit, 8),
    row<flushed(32, 32, 4, 2, kF16, 4)>("v_mfma_f32_32x32x4f16", 0x48, kGfx90aBit, 16),
    row<flushed(16, 16, 4, 4, kF16, 4)>("v_mfma_f32_16x16x4f16", 0x49, kGfx90aBit, 8),
    row<flushed(4, 4, 4, 16, kF16, 4)>("v_mfma_f32_4x4x4f16", 0x4a, kGfx90aBit, 2),
    row<flushed(32, 32, 8, 1, kF16, 4)>("v_mfma_f32_32x32x8f16", 0x4c, kGfx90aBit, 16),
    row<flushed(16, 16, 16, 1, kF16, 4)>("v_mfma_f32_16x16x16f16", 0x4d, kGfx90aBit, 8),
    row<bytes(32, 32, 4, 2, true)>("v_mfma_i32_32x32x4i8", 0x50, kGfx90aBit, 16),
    row<bytes(16, 16, 4, 4, true)>("v_mfma_i32_16x16x4i8", 0x51, kGfx90aBit, 8),
    row<bytes(4, 4, 4, 16, true)>("v_mfma_i32_4x4x4i8", 0x52, kGfx90aBit, 2),
    row<bytes(32, 32, 8, 1, true)>("v_mfma_i32_32x32x8i8", 0x54, kGfx90aBit, 16),
    row<bytes(16, 16, 16, 1, true)>("v_mfma_i32_16x16x16i8", 0x55, kGfx90aBit, 8),
    row<flushed(32, 32, 4, 2, kBf16, 4)>("v_mfma_f32_32x32x4bf16_1k", 0x63, kGfx90aBit, 16),
    row<flushed(16, 16, 4, 4, kBf16, 4)>("v_mfma_f32_16x16x4bf16_1k", 0x64, kGfx90aBit, 8),
    row<flushed(4, 4, 4, 16, kBf16, 4)>("v_mfma_f32_4x4x4bf16_1k", 0x65, kGfx90aBit, 2),
    row<flushed(32, 32, 8, 1, kBf16, 4)>("v_mfma_f32_32x32x8bf16_1k", 0x66, kGfx90aBit, 16),
    row<flushed(16, 16, 16, 1, kBf16, 4)>("v_mfma_f32_16x16x16bf16_1k", 0x67, kGfx90aBit, 8),
    row<flushed(32, 32, 2, 2, kBf16, 2)>("v_mfma_f32_32x32x2bf16", 0x68, kGfx90aBit, 16),
    row<flushed(16, 16, 2, 4, kBf16, 2)>("v_mfma_f32_16x16x2bf16", 0x69, kGfx90aBit, 8),
    row<flushed(4, 4, 2, 16, kBf16, 2)>("v_mfma_f32_4x4x2bf16", 0x6b, kGfx90aBit, 2),
    row<flushed(32, 32, 4, 1, kBf16, 2)>("v_mfma_f32_32x32x4bf16", 0x6c, kGfx90aBit, 16),
    row<flushed(16, 16, 8, 1, kBf16, 2)>("v_mfma_f32_16x16x8bf16", 0x6d, kGfx90aBit, 8),
    row<f64(16, 16, 4, 1)>("v_mfma_f64_16x16x4f64", 0x6e, kGfx90aBit, 8),
    row<f64(4, 4, 4, 4)>("v_mfma_f64_4x4x4f64", 0x6f, kGfx90aBit, 4),
};

constexpr OpInfo kCdna3[] = {
    scaled_row<float8(16, 16, 128, kFp8, kFp8)>("v_mfma_f32_16x16x128_f8f6f4", 0x2d, 4),
    scaled_row<float8(32, 32, 64, kFp8, kFp8)>("v_mfma_f32_32x32x64_f8f6f4", 0x2e, 8),
    row<half(16, 16, 32, 1, kBf16)>("v_mfma_f32_16x16x32_bf16", 0x35, kGfx950Bit, 4),
    row<bytes(16, 16, 64, 1)>("v_mfma_i32_16x16x64_i8", 0x36, kGfx950Bit, 4),
    row<half(32, 32, 16, 1, kBf16)>("v_mfma_f32_32x32x16_bf16", 0x37, kGfx950Bit, 8),
    row<bytes(32, 32, 32, 1)>("v_mfma_i32_32x32x32_i8", 0x38, kGfx950Bit, 8),
    row<xf32(16, 16, 8)>("v_mfma_f32_16x16x8_xf32", 0x3e, kGfx942Bit, 4),
    row<xf32(32, 32, 4)>("v_mfma_f32_32x32x4_xf32", 0x3f, kGfx942Bit, 8),
    row<f32(32, 32, 1, 2)>("v_mfma_f32_32x32x1_2b_f32", 0x40, kGfx940Plus, 16),
    row<f32(16, 16, 1, 4)>("v_mfma_f32_16x16x1_4b_f32", 0x41, kGfx940Plus, 8),
    row<f32(4, 4, 1, 16)>("v_mfma_f32_4x4x1_16b_f32", 0x42, kGfx940Plus, 2),
    row<f32(32, 32, 2, 1)>("v_mfma_f32_32x32x2_f32", 0x44, kGfx940Plus, 16),
    row<f32(16, 16, 4, 1)>("v_mfma_f32_16x16x4_f32", 0x45, kGfx940Plus, 8),
    row<half(32, 32, 4, 2, kF16)>("v_mfma_f32_32x32x4_2b_f16", 0x48, kGfx940Plus, 16),
    row<half(16, 16, 4, 4, kF16)>("v_mfma_f32_16x16x4_4b_f16", 0x49, kGfx940Plus, 8),
    row<half(4, 4, 4, 16, kF16)>("v_mfma_f32_4x4x4_16b_f16", 0x4a, kGfx940Plus, 2),
    row<half(32, 32, 8, 1, kF16)>("v_mfma_f32_32x32x8_f16", 0x4c, kGfx940Plus, 8),
    row<half(16, 16, 16, 1, kF16)>("v_mfma_f32_16x16x16_f16", 0x4d, kGfx940Plus, 4),
    row<bytes(32, 32, 4, 2)>("v_mfma_i32_32x32x4_2b_i8", 0x50, kGfx940Plus, 16),
    row<bytes(16, 16, 4, 4)>("v_mfma_i32_16x16x4_4b_i8", 0x51, kGfx940Plus, 8),
    row<bytes(4, 4, 4, 16)>("v_mfma_i32_4x4x4_16b_i8", 0x52, kGfx940Plus, 2),
    row<half(16, 16, 32, 1, kF16)>("v_mfma_f32_16x16x32_f16", 0x54, kGfx950Bit, 4),
    row<half(32, 32, 16, 1, kF16)>("v_mfma_f32_32x32x16_f16", 0x55, kGfx950Bit, 8),
    row<bytes(32, 32, 16, 1)>("v_mfma_i32_32x32x16_i8", 0x56, kGfx940Plus, 8),
    row<bytes(16, 16, 32, 1)>("v_mfma_i32_16x16x32_i8", 0x57, kGfx940Plus, 4),
    row<half(32, 32, 4, 2, kBf16)>("v_mfma_f32_32x32x4_2b_bf16", 0x5d, kGfx940Plus, 16),
    row<half(16, 16, 4, 4, kBf16)>("v_mfma_f32_16x16x4_4b_bf16", 0x5e, kGfx940Plus, 8),
    row<half(4, 4, 4, 16, kBf16)>("v_mfma_f32_4x4x4_16b_bf16", 0x5f, kGfx940Plus, 2),
    row<half(32, 32, 8, 1, kBf16)>("v_mfma_f32_32x32x8_bf16", 0x60, kGfx940Plus, 8),
    row<half(16, 16, 16, 1, kBf16)>("v_mfma_f32_16x16x16_bf16", 0x61, kGfx940Plus, 4),
    row<f64(16, 16, 4, 1, true)>("v_mfma_f64_16x16x4_f64", 0x6e, kGfx940Plus, 8),
    row<f64(4, 4, 4, 4, true)>("v_mfma_f64_4x4x4_4b_f64", 0x6f, kGfx940Plus, 4),
    row<float8(16, 16, 32, kBf8, kBf8)>("v_mfma_f32_16x16x32_bf8_bf8", 0x70, kGfx940Plus, 4),
    row<float8(16, 16, 32, kBf8, kFp8)>("v_mfma_f32_16x16x32_bf8_fp8", 0x71, kGfx940Plus, 4),
    row<float8(16, 16, 32, kFp8, kBf8)>("v_mfma_f32_16x16x32_fp8_bf8", 0x72, kGfx940Plus, 4),
    row<float8(16, 16, 32, kFp8, kFp8)>("v_mfma_f32_16x16x32_fp8_fp8", 0x73, kGfx940Plus, 4),
    row<float8(32, 32, 16, kBf8, kBf8)>("v_mfma_f32_32x32x16_bf8_bf8", 0x74, kGfx940Plus, 8),
    row<float8(32, 32, 16, kBf8, kFp8)>("v_mfma_f32_32x32x16_bf8_fp8", 0x75, kGfx940Plus, 8),
    row<float8(32, 32, 16, kFp8, kBf8)>("v_mfma_f32_32x32x16_fp8_bf8", 0x76, kGfx940Plus, 8),
    row<float8(32, 32, 16, kFp8, kFp8)>("v_mfma_f32_32x32x16_fp8_fp8", 0x77, kGfx940Plus, 8),
};

constexpr OpInfo kSparse[] = {
    row<sparse(half(16, 16, 64, 1, kBf16))>("v_smfmac_f32_16x16x64_bf16", 0x39, kGfx950Bit, 4),
    row<sparse(bytes(16, 16, 128, 1))>("v_smfmac_i32_16x16x128_i8", 0x3a, kGfx950Bit, 4),
    row<sparse(float8(16, 16, 128, kBf8, kBf8))>("v_smfmac_f32_16x16x128_bf8_bf8", 0x3b, kGfx950Bit,
                                                 4),
    row<sparse(float8(16, 16, 128, kBf8, kFp8))>("v_smfmac_f32_16x16x128_bf8_fp8", 0x3c, kGfx950Bit,
                                                 4),
    row<sparse(float8(16, 16, 128, kFp8, kBf8))>("v_smfmac_f32_16x16x128_fp8_bf8", 0x3d, kGfx950Bit,
                                                 4),
    row<sparse(float8(16, 16, 128, kFp8, kFp8))>("v_smfmac_f32_16x16x128_fp8_fp8", 0x43, kGfx950Bit,
                                                 4),
    row<sparse(half(32, 32, 32, 1, kBf16))>("v_smfmac_f32_32x32x32_bf16", 0x46, kGfx950Bit, 8),
    row<sparse(bytes(32, 32, 64, 1))>("v_smfmac_i32_32x32x64_i8", 0x47, kGfx950Bit, 8),
    row<sparse(float8(32, 32, 64, kBf8, kBf8))>("v_smfmac_f32_32x32x64_bf8_bf8", 0x4b, kGfx950Bit,
                                                8),
    row<sparse(float8(32, 32, 64, kBf8, kFp8))>("v_smfmac_f32_32x32x64_bf8_fp8", 0x4e, kGfx950Bit,
                                                8),
    row<sparse(float8(32, 32, 64, kFp8, kBf8))>("v_smfmac_f32_32x32x64_fp8_bf8", 0x4f, kGfx950Bit,
                                                8),
    row<sparse(float8(32, 32, 64, kFp8, kFp8))>("v_smfmac_f32_32x32x64_fp8_fp8", 0x53, kGfx950Bit,
                                                8),
    row<sparse(half(16, 16, 64, 1, kF16))>("v_smfmac_f32_16x16x64_f16", 0x5a, kGfx950Bit, 4),
    row<sparse(half(32, 32, 32, 1, kF16))>("v_smfmac_f32_32x32x32_f16", 0x5b, kGfx950Bit, 8),
    row<sparse(half(16, 16, 32, 1, kF16))>("v_smfmac_f32_16x16x32_f16", 0x62, kGfx940Plus, 4),
    row<sparse(half(32, 32, 16, 1, kF16))>("v_smfmac_f32_32x32x16_f16", 0x64, kGfx940Plus, 8),
    row<sparse(half(16, 16, 32, 1, kBf16))>("v_smfmac_f32_16x16x32_bf16", 0x66, kGfx940Plus, 4),
    row<sparse(half(32, 32, 16, 1, kBf16))>("v_smfmac_f32_32x32x16_bf16", 0x68, kGfx940Plus, 8),
    row<sparse(bytes(16, 16, 64, 1))>("v_smfmac_i32_16x16x64_i8", 0x6a, kGfx940Plus, 4),
    row<sparse(bytes(32, 32, 32, 1))>("v_smfmac_i32_32x32x32_i8", 0x6c, kGfx940Plus, 8),
    row<sparse(float8(16, 16, 64, kBf8, kBf8))>("v_smfmac_f32_16x16x64_bf8_bf8", 0x78, kGfx940Plus,
                                                4),
    row<sparse(float8(16, 16, 64, kBf8, kFp8))>("v_smfmac_f32_16x16x64_bf8_fp8", 0x79, kGfx940Plus,
                                                4),
    row<sparse(float8(16, 16, 64, kFp8, kBf8))>("v_smfmac_f32_16x16x64_fp8_bf8", 0x7a, kGfx940Plus,
                                                4),
    row<sparse(float8(16, 16, 64, kFp8, kFp8))>("v_smfmac_f32_16x16x64_fp8_fp8", 0x7b, kGfx940Plus,
                                                4),
    row<sparse(float8(32, 32, 32, kBf8, kBf8))>("v_smfmac_f32_32x32x32_bf8_bf8", 0x7c, kGfx940Plus,
                                                8),
    row<sparse(float8(32, 32, 32, kBf8, kFp8))>("v_smfmac_f32_32x32x32_bf8_fp8", 0x7d, kGfx940Plus,
                                                8),
    row<sparse(float8(32, 32, 32, kFp8, kBf8))>("v_smfmac_f32_32x32x32_fp8_bf8", 0x7e, kGfx940Plus,
                                                8),
    row<sparse(float8(32, 32, 32, kFp8, kFp8))>("v_smfmac_f32_32x32x32_fp8_fp8", 0x7f, kGfx940Plus,
                                                8),
};

}  // namespace

std::span<const OpInfo> mfma_ops() {
    static const std::vector<OpInfo> rows = join_rows({kMovesAndScale, kCdna2, kCdna3, kSparse});
    return rows;
}

}  // namespace asmevo::emulator
