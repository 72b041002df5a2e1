// Parts of the instruction printer, shared by format.cpp and format_modifiers.cpp. The text is LLVM's syntax.
#pragma once

#include <string>

#include "isa/inst.h"

namespace asmevo::emulator {

std::string format_register(RegSpan::File file, unsigned first, unsigned count);
std::string format_operand(const Operand& operand, const Inst& inst);
/// simm16 of SOPP and SOPK operations by name: counters, hardware registers, plain numbers.
std::string format_immediate(const Inst& inst);
/// v_fma_mix_f32, v_fma_mixlo_f16, v_fma_mixhi_f16.
inline bool is_mix(const Inst& inst) {
    return inst.info->encoding == Encoding::kVop3p && inst.info->opcode >= 0x20 &&
           inst.info->opcode <= 0x22;
}
std::string format_vector_modifiers(const Inst& inst);
std::string format_memory_modifiers(const Inst& inst);

}  // namespace asmevo::emulator
