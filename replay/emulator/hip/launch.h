// Running one launch of the HIP API.
#pragma once

#include <mutex>
#include <string>

#include "hip/kernarg.h"
#include "hip/module.h"
#include "hip/stream.h"

namespace asmevo::emulator::hip {

struct Launch {
    const Function* function = nullptr;
    Dim grid{};   // in workgroups
    Dim block{};  // in work-items
    uint64_t dynamic_lds = 0;
    const Stream* stream = nullptr;
    void* const* params = nullptr;
    void* const* extra = nullptr;
    bool is_cooperative = false;
};

/// Checks the launch, runs it to its end in the calling thread, one launch at a time in the
/// process. A launch that fails on the device prints its report and makes hipErrorLaunchFailure
/// sticky.
Error run_launch(const Launch& launch);

/// Held while a launch runs. Calls that take memory away hold it too: as on a GPU, they wait for
/// running kernels.
std::unique_lock<std::mutex> lock_launches();

/// JSON of the calling thread's last dispatch: see docs/internals.md.
const std::string& last_report();

}  // namespace asmevo::emulator::hip
