// All scalar operations in one table.
#include <bit>
#include <vector>

#include "exec/fault.h"

#include "exec/scalar/scalar_rows.h"

namespace asmevo::emulator {

void fork_lanes(Wave& wave, uint64_t mask, uint64_t target) {
    const uint64_t exec = wave.exec(), pass = mask & exec, fail = ~mask & exec;
    if (pass == exec) {
        wave.pc = target;
        return;
    }
    if (fail == exec) {
        return;
    }
    const uint32_t depth = fork_depth(wave);
    if (depth == 7) {
        throw Fault("too many forks: MODE.CSP has three bits");
    }
    // Four SGPRs: lanes that wait, and where they go on.
    uint16_t saved = static_cast<uint16_t>(4 * depth);
    const bool target_waits = std::popcount(fail) < std::popcount(pass);
    wave.write64(saved, target_waits ? pass : fail);
    wave.write64(static_cast<uint16_t>(saved + 2), target_waits ? target : wave.pc);
    wave.set_exec(target_waits ? fail : pass);
    set_fork_depth(wave, depth + 1);
    if (!target_waits) {
        wave.pc = target;
    }
}

std::span<const OpInfo> sop_ops() {
    static const std::vector<OpInfo> rows = [] {
        std::vector<OpInfo> all;
        for (auto part : {sop1_ops(), sop2_ops(), sopc_ops(), sopk_ops(), sopp_ops()}) {
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    }();
    return rows;
}

}  // namespace asmevo::emulator
