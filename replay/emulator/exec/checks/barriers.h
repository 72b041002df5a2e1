// Barriers at which the waves of a workgroup do not all meet.
#pragma once

#include "exec/checks/finding.h"

namespace asmevo::emulator {

/// All live waves stand at a barrier: reports those that others reach elsewhere or not at all.
void check_barrier(const Workgroup& group, Reporter& reporter);

}  // namespace asmevo::emulator
