// v_bitop3_*: the truth table stands in the omod, abs and neg fields of VOP3, which are no modifiers there.
#pragma once

#include <string_view>

#include "isa/inst.h"

namespace asmevo::emulator {

inline bool is_bitop3(const OpInfo& info) { return std::string_view(info.name).starts_with("v_bitop3"); }

constexpr uint32_t truth_table(const uint32_t words[2]) {
    const uint32_t omod = words[1] >> 27 & 3, neg = words[1] >> 29 & 7, abs = words[0] >> 8 & 7;
    return omod << 6 | abs << 3 | neg;
}

}  // namespace asmevo::emulator
