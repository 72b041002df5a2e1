// Parts of the instruction printer, shared by format.cpp and format_modifiers.cpp. The text is LLVM's syntax.
#pragma once

#include <string>

#include "isa/inst.h"

namespace asmevo::emulator {

std::string format_register(RegSpan::File file, unsigned first, unsigned count);
std::string format_operand(const Operand& operand, const Inst& inst);
/// simm16 of SOPP and SOPK operations by name: counters, hardware registers, plain numbers.
std::string format_immediate(const Inst& inst);
std::string format_vector_modifiers(const Inst& inst);
std::string format_memory_modifiers(const Inst& inst);

}  // namespace asmevo::emulator
