// The operation tables, one per encoding family, each defined beside the functions that execute it.
#pragma once

#include <span>

#include "isa/op_info.h"

namespace asmevo::emulator {

// exec/scalar/
std::span<const OpInfo> sop_ops();    // kSop1, kSop2, kSopc, kSopk, kSopp
std::span<const OpInfo> smem_ops();
// exec/vector/
std::span<const OpInfo> vop1_ops();
std::span<const OpInfo> vop2_ops();
std::span<const OpInfo> vopc_ops();
std::span<const OpInfo> vop3_ops();   // operations that exist only as VOP3
std::span<const OpInfo> vop3p_ops();  // packed and dot operations
std::span<const OpInfo> mfma_ops();   // kVop3p: MFMA, SMFMAC, accvgpr moves
// exec/memory_ops/
std::span<const OpInfo> ds_ops();
std::span<const OpInfo> mubuf_ops();  // kMubuf and kMtbuf
std::span<const OpInfo> flat_ops();   // kFlat, kGlobal, kScratch
std::span<const OpInfo> image_ops();  // kMimg

/// The row for an encoding and opcode on a target; null if there is none.
const OpInfo* find_op(Target target, Encoding encoding, uint16_t opcode);

}  // namespace asmevo::emulator
