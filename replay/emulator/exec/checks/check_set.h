// Which run-time checks a launch makes, and what happens when one of them finds something.
#pragma once

#include <cstdint>
#include <string_view>

namespace asmevo::emulator {

enum Check : uint32_t {
    kNoChecks = 0,
    kCheckWaits = 1u << 0,      // registers and LDS that a memory operation still fills
    kCheckHazards = 1u << 1,    // software wait states
    kCheckRaces = 1u << 2,      // LDS accesses of different waves that no barrier orders
    kCheckUndefined = 1u << 3,  // never-written data that reaches an address, a branch, EXEC or memory
    kCheckBarriers = 1u << 4,   // barriers that not all waves reach
    kCheckAlignment = 1u << 5,  // addresses that are no multiple of the access
    kAllChecks = (1u << 6) - 1,
};
using CheckSet = uint32_t;

/// What the first finding of class error does: end the launch as a fault, or be noted while the launch goes on.
enum class OnFinding : uint8_t { kEnd, kCollect };

/// Reads "all", "none" or names with commas between them; false when a name is not known.
bool parse_checks(std::string_view text, CheckSet& out);

}  // namespace asmevo::emulator
