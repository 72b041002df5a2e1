// The text of a launch that failed.
#pragma once

#include <string>

#include "exec/dispatch.h"
#include "exec/fault.h"

namespace asmevo::emulator {

std::string fault_report(const DispatchContext& dispatch, const Wave& wave, uint64_t pc,
                         const Fault& fault);
std::string watchdog_report(const DispatchContext& dispatch, const Workgroup& group);

/// A pc as reports show it: "+0x10" behind the kernel's entry.
std::string place_text(const Wave& wave, uint64_t pc);

/// Faults because `inst` names registers that the kernel did not allocate.
[[noreturn]] void fault_beyond_allocation(const Wave& wave, const Inst& inst);

}  // namespace asmevo::emulator
