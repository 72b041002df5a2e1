// Rows of the vector operation tables, and the families that make up each table.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "exec/vector/width.h"
#include "isa/op_info.h"

namespace asmevo::emulator {

constexpr OpInfo vector_row(const char* name, Encoding encoding, uint16_t opcode, Type dst,
                            std::initializer_list<Type> sources, Handler run,
                            uint32_t flags = kNoFlags, TargetMask targets = kAllTargets,
                            Category category = Category::kValu) {
    OpInfo info{name, encoding, opcode, targets, category, {dst, Type::kNone}, {}, flags | kReadsExec, run};
    int count = 0;
    for (const Type type : sources) {
        info.src[count++] = type;
    }
    return info;
}

/// One span over several tables, built once.
std::vector<OpInfo> join_tables(std::initializer_list<std::span<const OpInfo>> tables);

// Families that join the tables of isa/tables.h.
std::span<const OpInfo> vop2_carry_ops();    // carry.cpp
std::span<const OpInfo> vop2_dot_ops();      // dot.cpp
std::span<const OpInfo> vop3p_dot_ops();     // dot.cpp
std::span<const OpInfo> vop1_fp8_ops();      // fp8.cpp
std::span<const OpInfo> vop1_lane_ops();     // lane_ops.cpp
std::span<const OpInfo> vop3_lane_ops();     // lane_ops.cpp
std::span<const OpInfo> vop3_sad_ops();      // sad.cpp
std::span<const OpInfo> vop3_convert_ops();  // vop3_convert.cpp
std::span<const OpInfo> vop3_fp8_ops();      // fp8.cpp
std::span<const OpInfo> vop3_scaled_ops();   // scaled_convert.cpp
std::span<const OpInfo> vop3_scaled32_ops(); // scaled_convert32.cpp
std::span<const OpInfo> vop3_division_ops(); // division.cpp

// Families and tables that are compiled for each width (exec/vector/width.h); width.cpp makes the tables of isa/tables.h
// out of one or the other.
inline namespace ASMEVO_VECTOR_WIDTH {
std::span<const OpInfo> vop1_convert_ops();  // vop1_convert.cpp
std::span<const OpInfo> vop1_float_ops();    // vop1_float.cpp
std::span<const OpInfo> vop3_float_ops();    // vop3_float.cpp
std::span<const OpInfo> vop3_integer_ops();  // vop3_integer.cpp
std::span<const OpInfo> vop1_rows();
std::span<const OpInfo> vop2_rows();
std::span<const OpInfo> vopc_rows();
std::span<const OpInfo> vop3_rows();
std::span<const OpInfo> vop3p_rows();
}  // namespace ASMEVO_VECTOR_WIDTH

}  // namespace asmevo::emulator
