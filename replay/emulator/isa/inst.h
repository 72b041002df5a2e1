// A decoded instruction. Handlers see only this: every encoding of an operation gives the same operands.
#pragma once

#include <cstdint>
#include <string>

#include "isa/op_info.h"

namespace asmevo::emulator {

enum class OperandKind : uint8_t {
    kNone,
    kVgpr,     // index 0..255 architectural, 256..511 accumulation (a0 = 256)
    kSgpr,     // index = ISA scalar code 0..127: s0..s101, 102 flat_scratch, 104 xnack, 106 vcc, 108 ttmp, 124 m0, 126 exec
    kConst,    // inline constant or literal, already expanded to the operand's type; index = ISA code (255: literal)
    kSpecial,  // index = ISA code 235..238 (apertures), 251 vccz, 252 execz, 253 scc
};

enum SdwaSelect : uint8_t { kByte0, kByte1, kByte2, kByte3, kWord0, kWord1, kDword };

struct Operand {
    OperandKind kind = OperandKind::kNone;
    Type type = Type::kNone;
    uint16_t index = 0;
    uint8_t dwords = 0;
    bool neg = false;        // VOP3, VOP3P neg_lo, SDWA, DPP
    bool abs = false;
    bool neg_hi = false;     // VOP3P
    bool op_sel = false;     // VOP3 op_sel, VOP3P op_sel (half used for the low result)
    bool op_sel_hi = false;  // VOP3P (half used for the high result)
    bool sext = false;       // SDWA integer sign extension
    uint8_t sdwa_sel = kDword;
    uint64_t constant = 0;   // kConst: bits as the type needs them (kF64 literal: high half set; kPk*: both halves per ISA)

    bool is_vgpr() const { return kind == OperandKind::kVgpr; }
    bool is_sgpr() const { return kind == OperandKind::kSgpr; }
    explicit operator bool() const { return kind != OperandKind::kNone; }
};

struct Dpp {
    bool enabled = false;
    uint16_t control = 0;    // 9-bit dpp_ctrl
    uint8_t row_mask = 0xf, bank_mask = 0xf;
    bool bound_ctrl = false;
};

struct Sdwa {
    bool enabled = false;
    uint8_t dst_sel = kDword;
    uint8_t dst_unused = 0;  // 0 pad, 1 sign-extend, 2 preserve
};

/// A run of registers that an instruction reads or writes, for dependence tracking.
struct RegSpan {
    enum File : uint8_t { kScalar, kVector } file = kScalar;
    uint16_t first = 0;      // same numbering as Operand::index
    uint8_t count = 0;
};

constexpr int kMaxSpans = 8;

/// How an instruction counts in the wait counters (exec/wait_tracking.h); decided once, by the decoder.
enum class WaitClass : uint8_t { kNone, kVm, kLds, kSmem, kFlat, kMessage };

/// The LDS bytes that each lane of an instruction touches, as far as they follow from an address register or from M0.
struct LdsShape {
    uint8_t pieces = 0;        // 0: none known, 2: read2/write2
    uint8_t bytes = 0;         // of a piece
    uint16_t scale = 1;        // of the two 8-bit offsets
    bool is_write = false;     // atomics too
    bool is_atomic = false;
    bool from_memory = false;  // LDS-DMA: lane l writes at M0 + offset + l * bytes
};

/// What an instruction does to what other workgroups see (exec/ordering.h); decided by CodeSegment.
enum class Ordering : uint8_t {
    kFree,          // nothing that they see in time
    kStore,         // writes memory, in a way whose order does not show by itself
    kRounds,        // adds floats to memory: the order shows in the last bits
    kSynchronises,  // learns what others did
    kNever,         // above every instruction's
};

/// Source order by encoding
///   SOP*, VOP*, VOP3P: as the ISA's src0, src1, src2. v_cndmask's mask and v_addc's carry-in are src[2]; carry-out is
///     dst[1]; VOPC's result is dst[0] of type kMask. In short forms the decoder fills these with VCC.
///   v_fmac and friends: the accumulator is dst[0], with kDstIsRead.
///   kLiteralK: v_madmk/v_fmamk dst = src0*K + src1 -> src[0], src[1] = K, src[2]; v_madak/v_fmaak -> src[2] = K.
///   MFMA: src[0] = A, src[1] = B, src[2] = C; SMFMAC: src[2] = index, accumulator is dst[0] with kDstIsRead.
///   SMEM: src[0] = sbase, src[1] = soffset SGPR or none; dst[0] = sdata (stores: src[2]); immediate in `offset`.
///   DS: src[0] = addr, src[1] = data0, src[2] = data1; dst[0] = vdst; 16-bit offset field in `offset`
///     (two 8-bit offsets for read2/write2: low byte is offset0).
///   MUBUF/MTBUF: src[0] = vaddr (none if neither idxen nor offen), src[1] = store/atomic data, src[2] = srsrc,
///     src[3] = soffset; dst[0] = loaded or returned data.
///   FLAT/GLOBAL/SCRATCH: src[0] = vaddr (none for scratch with saddr or no address), src[1] = data,
///     src[2] = saddr or none; dst[0] = loaded or returned data.
struct Inst {
    const OpInfo* info = nullptr;
    Handler run = nullptr;
    // First what the run loop looks at.
    uint16_t arch_vgprs = 0, acc_vgprs = 0;  // registers that the wave must have: highest index used + 1
    uint8_t size_dwords = 0;
    uint8_t simple_cycles = 0;  // modelled cycles of a plain ALU operation (CodeSegment); 0: anything else
    WaitClass wait_class = WaitClass::kNone;
    Ordering ordering = Ordering::kFree;
    LdsShape lds_shape;
    Target target = Target::kGfx942;
    bool is_vector = false;  // VOP*: with simple_cycles, which unit is busy
    bool clamp = false;
    uint8_t omod = 0;
    Dpp dpp;
    Sdwa sdwa;
    Operand dst[2];
    Operand src[4];
    uint32_t words[4] = {};
    bool is_vop3 = false;    // VOP1/2/C operation in its 64-bit form (text suffix _e64)
    uint8_t op_sel = 0;      // raw VOP3 op_sel; bit 3 = destination half
    int32_t simm = 0;        // SOPP, SOPK (sign-extended); SOPK setreg: raw hwreg in the low 16 bits
    uint32_t literal = 0;    // trailing 32-bit constant, where there is one
    uint8_t literal_dword = 0;  // its place in words; 0: there is none
    uint8_t cbsz = 0, abid = 0, blgp = 0;  // MFMA
    int32_t offset = 0;      // memory immediate, sign-extended where the encoding is signed
    bool glc = false, slc = false, nt = false;   // gfx940: glc = sc0, slc = sc1
    bool offen = false, idxen = false, lds = false, gds = false;
    uint8_t dfmt = 0, nfmt = 0;            // MTBUF
    RegSpan reads[kMaxSpans], writes[kMaxSpans];
    uint8_t read_count = 0, write_count = 0;
};

/// Decodes the instruction at `words` (at most `available` dwords are read).
/// Returns false, with the reason in `error`, for an unknown opcode or one that `target` does not have.
bool decode(Target target, const uint32_t* words, size_t available, Inst& out, std::string& error);

/// Assembly text of a decoded instruction, for reports (`v_add_f32_e32 v0, v1, v2`).
std::string format(const Inst& inst);

}  // namespace asmevo::emulator
