// Shared by the scalar tables: short ways to write a row.
#pragma once

#include "exec/wave.h"
#include "isa/tables.h"

namespace asmevo::emulator {

constexpr uint32_t kModeVskip = 1u << 28;

constexpr OpInfo scalar_row(const char* name, Encoding encoding, uint16_t opcode, Type dst, Type src0,
                            Type src1, uint32_t flags, Handler run,
                            Category category = Category::kSalu) {
    return OpInfo{name,
                  encoding,
                  opcode,
                  kAllTargets,
                  category,
                  {dst, Type::kNone},
                  {src0, src1, Type::kNone, Type::kNone},
                  flags,
                  run};
}

std::span<const OpInfo> sop1_ops();
std::span<const OpInfo> sop2_ops();
std::span<const OpInfo> sopc_ops();
std::span<const OpInfo> sopk_ops();
std::span<const OpInfo> sopp_ops();
std::span<const OpInfo> smem_atomic_ops();

}  // namespace asmevo::emulator
