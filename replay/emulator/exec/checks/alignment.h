// Addresses that are no multiple of what the access needs.
#pragma once

#include "exec/checks/accesses.h"
#include "exec/checks/finding.h"

namespace asmevo::emulator {

/// Reports the instruction that is about to execute where it is misaligned.
void check_alignment(const Wave& wave, const Inst& inst, const AccessShape& shape,
                     const LdsFootprint& footprint, uint64_t pc, Reporter& reporter);

}  // namespace asmevo::emulator
