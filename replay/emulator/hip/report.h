// The report of a dispatch for the replay worker.
#pragma once

#include <string>

#include "hip/module.h"

namespace asmevo::emulator::hip {

std::string format_report(const Function& function, const DispatchResult& result);

}  // namespace asmevo::emulator::hip
