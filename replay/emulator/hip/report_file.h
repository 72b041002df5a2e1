// A file that outlives the process with what its dispatches were found to do wrong.
#pragma once

#include <string>

#include "hip/module.h"

namespace asmevo::emulator::hip {

/// Appends `report` as a line to the file named by ASMEVO_EMULATOR_FINDINGS, if there is one: for a dispatch that
/// failed or has findings, and for the first of each kernel, so that the file also says what was checked.
/// The caller holds the launch lock.
void keep_report(const Function& function, const DispatchResult& result, const std::string& report);

}  // namespace asmevo::emulator::hip
