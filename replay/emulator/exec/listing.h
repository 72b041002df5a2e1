// Assembly text around an address, for reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/dispatch.h"

namespace asmevo::emulator {

struct ListingLine {
    uint64_t address;
    std::string text;  // in brackets: why nothing decodes there
};

/// Instruction at `pc`; empty outside the code.
std::string instruction_text(const CodeSegment& code, uint64_t pc);

/// The instruction at `pc` with up to `context` before and after it, in order. Instructions differ in size, so those
/// before are found by walking from the kernel's first one; none are shown where the walk meets data.
std::vector<ListingLine> list_around(const KernelImage& kernel, uint64_t pc, size_t context);

}  // namespace asmevo::emulator
