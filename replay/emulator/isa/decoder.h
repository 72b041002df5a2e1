// The decoder's working state, shared by its parts: decode.cpp (scalar and entry), decode_vector.cpp,
// decode_memory.cpp, operands.cpp. Field positions: CDNA3 ISA, chapter 13 "Microcode Formats".
#pragma once

#include <string>

#include "isa/inst.h"

namespace asmevo::emulator {

// Scalar source codes (CDNA3 ISA 13.x, SSRC0 table).
constexpr unsigned kCodeInlineFirst = 128, kCodeInlineLast = 208, kCodeFloatFirst = 240,
                   kCodeFloatLast = 248, kCodeSdwa = 249, kCodeDpp = 250, kCodeLiteral = 255,
                   kCodeVgpr = 256;

/// Bits [first, first + width) of a word.
constexpr uint32_t bits(uint32_t word, unsigned first, unsigned width) {
    return (word >> first) & ((1u << width) - 1);
}
constexpr bool bit(uint32_t word, unsigned at) { return (word >> at) & 1; }

/// An inline constant (codes 128..208, 240..248) expanded to `type`.
uint64_t inline_constant(unsigned code, Type type);
/// A 32-bit literal expanded to `type`.
uint64_t literal_constant(uint32_t literal, Type type);

Operand vgpr_operand(unsigned number, Type type, bool accumulation = false);
Operand sgpr_operand(unsigned code, Type type);

/// Fills reads, writes and the register counts from operands and flags; false with `error` for a register tuple that
/// leaves its file or is misaligned.
bool fill_spans(Inst& inst, std::string& error);

LdsShape lds_shape(const Inst& inst);

class Decoder {
  public:
    Decoder(Target target, const uint32_t* words, size_t available, Inst& inst, std::string& error)
        : target_(target), words_(words), available_(available), inst_(inst), error_(error) {}

    bool run();

  private:
    bool fail(const char* reason) {
        error_ = reason;
        return false;
    }
    bool is_gfx940() const { return target_ != Target::kGfx90a; }
    bool need(size_t dwords);
    bool lookup(Encoding encoding, unsigned opcode);
    bool take_literal();
    /// A source field of 8 bits (scalar) or 9 bits (vector).
    bool source(unsigned code, Type type, Operand& out);
    bool scalar_destination(unsigned code, Type type, Operand& out);

    bool sop2();
    bool sopk();
    bool sop1();
    bool sopc();
    bool sopp();
    bool smem();

    bool vop1();
    bool vop2();
    bool vopc();
    bool vop3();
    bool vop3p();
    bool vop3p_packed();
    bool vop3p_mai();
    bool short_source0(unsigned code);
    bool sdwa(bool is_compare);
    bool dpp();
    bool fill_implicit_vcc();

    bool ds();
    bool mubuf();
    bool mtbuf();
    bool buffer_operands(uint32_t w1);
    bool flat();
    bool mimg();

    Target target_;
    const uint32_t* words_;
    size_t available_;
    Inst& inst_;
    std::string& error_;
};

}  // namespace asmevo::emulator
