// A condition that ends a launch: illegal access, unknown instruction, read of a register still being loaded.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace asmevo::emulator {

/// Thrown by handlers and the executor, caught by run_dispatch, which adds kernel, pc, instruction text, workgroup
/// and wave. Never crosses the C ABI.
struct Fault : std::runtime_error {
    explicit Fault(std::string what, int lane_id = -1, const char* rule_name = "fault")
        : std::runtime_error(std::move(what)), lane(lane_id), rule(rule_name) {}
    int lane;          // lane of the wave, -1 when the fault belongs to the wave
    const char* rule;  // as in findings (exec/checks/finding.h), a literal; null: it is noted as a finding already
};

}  // namespace asmevo::emulator
