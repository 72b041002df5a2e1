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

constexpr const char* kTrapOnly = "only a trap handler may execute it, and this device has none";

/// MODE.CSP: how many forks of s_cbranch_*_fork wait to be joined, each with four SGPRs (CDNA3 ISA 4.3).
constexpr uint32_t kModeCspShift = 29;
constexpr uint32_t fork_depth(const Wave& wave) { return wave.mode >> kModeCspShift; }
inline void set_fork_depth(Wave& wave, uint32_t depth) {
    wave.mode = (wave.mode & ~(7u << kModeCspShift)) | depth << kModeCspShift;
}

/// S_CBRANCH_G_FORK, S_CBRANCH_I_FORK: lanes of `mask` go to `target`, the others on. The larger side waits on the
/// stack of forks.
void fork_lanes(Wave& wave, uint64_t mask, uint64_t target);

std::span<const OpInfo> sop1_ops();
std::span<const OpInfo> sop2_ops();
std::span<const OpInfo> sopc_ops();
std::span<const OpInfo> sopk_ops();
std::span<const OpInfo> sopp_ops();
std::span<const OpInfo> smem_atomic_ops();

}  // namespace asmevo::emulator
