// What is known of an operation before it is decoded: its name, encoding, operand types and class.
// One table row an operation; the tables stand beside the functions that execute them (exec/).
#pragma once

#include <cstdint>
#include <span>

namespace asmevo::emulator {

enum class Target : uint8_t { kGfx90a, kGfx942, kGfx950 };

using TargetMask = uint8_t;
constexpr TargetMask kGfx90aBit = 1, kGfx942Bit = 2, kGfx950Bit = 4;
constexpr TargetMask kAllTargets = 7, kGfx940Plus = 6;

/// Instruction encodings (microcode formats). The VOP3 forms of VOP1, VOP2 and VOPC operations have no rows of
/// their own: the decoder finds VOPC at VOP3 opcode 0x000, VOP2 at 0x100, VOP1 at 0x140.
enum class Encoding : uint8_t {
    kSop2, kSopk, kSop1, kSopc, kSopp, kSmem,
    kVop1, kVop2, kVopc, kVop3, kVop3p,
    kDs, kMubuf, kMtbuf, kFlat, kGlobal, kScratch,
    kMimg,  // no operation of it is executed; only the names are known
};

/// Operand data type: decides the number of registers and how inline constants and literals expand.
enum class Type : uint8_t {
    kNone,
    kB32, kF32,          // one register; kF32 inline floats are f32
    kI16, kF16,          // one register, low (or op_sel) half used
    kPkF16, kPkI16,      // one register, two halves (VOP3P)
    kBf16, kPkBf16,
    kB64, kF64, kPkF32,  // two registers; kPkF32 is a pair of f32 (v_pk_*_f32)
    kB96, kB128, kB160, kB192, kB256, kB512, kB1024,
    kMask,               // a lane mask: VCC in short forms, an aligned SGPR pair in VOP3
};

/// Registers (32-bit) that an operand of this type takes.
constexpr uint8_t dword_count(Type type) {
    switch (type) {
        case Type::kNone: return 0;
        case Type::kB64: case Type::kF64: case Type::kPkF32: case Type::kMask: return 2;
        case Type::kB96: return 3;
        case Type::kB128: return 4;
        case Type::kB160: return 5;
        case Type::kB192: return 6;
        case Type::kB256: return 8;
        case Type::kB512: return 16;
        case Type::kB1024: return 32;
        default: return 1;
    }
}

/// The unit that executes an operation; wait counters and the timing model follow from it.
enum class Category : uint8_t {
    kSalu, kSmem, kValu, kTrans, kMfma, kVmemLoad, kVmemStore, kVmemAtomic, kVmemCache,
    kFlatLoad, kFlatStore, kFlatAtomic, kLds, kLdsNoReturn, kBranch, kBarrier, kWait, kNop, kMessage, kEnd,
};

/// Effects that no operand shows.
enum OpFlags : uint32_t {
    kNoFlags = 0,
    kReadsScc = 1u << 0, kWritesScc = 1u << 1,
    kReadsVcc = 1u << 2, kWritesVcc = 1u << 3,
    kReadsExec = 1u << 4, kWritesExec = 1u << 5,
    kReadsM0 = 1u << 6, kWritesM0 = 1u << 7,
    kReadsMode = 1u << 8, kWritesMode = 1u << 9,
    kDstIsRead = 1u << 10,    // the destination is also a source (v_fmac, v_writelane, d16 hi, …)
    kDstScalar = 1u << 11,    // the vector destination field names an SGPR (v_readfirstlane)
    kIgnoresExec = 1u << 12,  // runs on all lanes whatever EXEC says (v_readlane, MFMA, …)
    kLiteralK = 1u << 13,     // a 32-bit constant always follows (v_madmk, v_fmaak, s_setreg_imm32)
    kRelative = 1u << 14,     // SOPP/SOPK branch: simm16 is a dword offset
    kReturnsWithGlc = 1u << 15,  // atomic: dst is written only with glc/sc0
    kLds = 1u << 16,          // touches LDS (ds_*, LDS-DMA)
    kNoVop3 = 1u << 17,       // no VOP3 form exists
    kPackedModifiers = 1u << 18,  // op_sel_hi/neg_hi apply (VOP3P non-MFMA)
    kTerminator = 1u << 19,   // control does not fall through
};

/// How a result compares with a GPU's. docs/instructions.md is made of it.
enum class Exactness : uint8_t {
    kExact,        // the bits that the ISA document or published measurements give
    kApproximate,  // executed, but no published source fixes every bit: OpInfo::note says what is assumed
    kMissing,      // refused with OpInfo::note
};

struct Wave;
struct Inst;
using Handler = void (*)(Wave&, const Inst&);

struct OpInfo {
    const char* name;          // without encoding suffix: "v_add_f32"
    Encoding encoding;
    uint16_t opcode;           // in that encoding; for kVop3 the full 10-bit field
    TargetMask targets;
    Category category;
    Type dst[2];               // vdst/sdst; second: carry-out or saved mask (VOP3B)
    Type src[4];               // order per encoding: see isa/inst.h
    uint32_t flags;
    Handler run;
    uint8_t passes = 0;        // MFMA: number of passes (4 cycles each) on gfx942
    Exactness exactness = Exactness::kExact;
    TargetMask inexact_targets = kAllTargets;  // where `exactness` holds; the others are exact
    const char* note = "";     // why it is not exact

    constexpr Exactness exactness_on(Target target) const {
        return (inexact_targets >> static_cast<unsigned>(target) & 1) != 0 ? exactness : Exactness::kExact;
    }
};

/// The same row, executed with an assumption.
constexpr OpInfo approximate(OpInfo row, const char* note, TargetMask targets = kAllTargets) {
    row.exactness = Exactness::kApproximate;
    row.inexact_targets = targets;
    row.note = note;
    return row;
}

/// Handler of every operation that is decoded only to be refused by name.
void refuse_operation(Wave&, const Inst& inst);

/// The same row, refused when it is executed.
constexpr OpInfo missing(OpInfo row, const char* reason) {
    row.exactness = Exactness::kMissing;
    row.note = reason;
    row.run = refuse_operation;
    return row;
}

}  // namespace asmevo::emulator
