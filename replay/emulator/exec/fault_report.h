// The text of a launch that failed.
#pragma once

#include <string>
#include <vector>

#include "exec/dispatch.h"
#include "exec/fault.h"
#include "exec/spin_watch.h"

namespace asmevo::emulator {

std::string fault_report(const DispatchContext& dispatch, const Wave& wave, uint64_t pc,
                         const Fault& fault);
/// The same of a finding that ends the launch at its end.
std::string finding_report(const DispatchContext& dispatch, const Finding& finding);
/// `why` a workgroup never ends, and where its waves are; the loops that they are in are shown.
std::string endless_report(const DispatchContext& dispatch, const Workgroup& group,
                           const std::vector<SpinWatch>& spins, const std::string& why);

/// A pc as reports show it: "+0x10" behind the kernel's entry.
std::string place_text(const Wave& wave, uint64_t pc);

/// Faults because `inst` names registers that the kernel did not allocate.
[[noreturn]] void fault_beyond_allocation(const Wave& wave, const Inst& inst);

}  // namespace asmevo::emulator
