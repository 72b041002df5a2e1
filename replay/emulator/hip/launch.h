// Running one launch of the HIP API.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hip/kernarg.h"
#include "hip/module.h"

namespace asmevo::emulator::hip {

struct Stream;

struct Launch {
    const Function* function = nullptr;
    Dim grid{};   // in workgroups, partial ones too
    Dim block{};  // in work-items
    uint64_t dynamic_lds = 0;
    const Stream* stream = nullptr;
    void* const* params = nullptr;
    void* const* extra = nullptr;
    bool is_cooperative = false;
    const void* symbol = nullptr;  // what the program named the kernel by, if not by `function`
    Dim remainder{};               // work-items of a partial last workgroup
    bool is_multi_grid = false;    // of a cooperative launch on several devices
};

/// A checked launch that needs nothing of its caller any more: what a graph's kernel node holds.
struct PreparedLaunch {
    std::shared_ptr<Module> keep_alive;
    const Function* function = nullptr;
    const void* symbol = nullptr;  // the function, or what stood for it
    LaunchShape shape;
    bool is_cooperative = false, is_multi_grid = false;
    std::vector<uint8_t> kernarg;
};

/// Checks a launch, except its stream, and builds its kernarg segment.
Error prepare_launch(const Launch& launch, PreparedLaunch& out);

/// Runs it to its end in the calling thread, one launch at a time in the process. A launch that
/// fails on the device prints its report and makes hipErrorLaunchFailure sticky.
Error run_kernel(const PreparedLaunch& launch);

/// Both, the stream's way.
Error run_launch(const Launch& launch);

/// Held while a launch runs. Calls that take memory away hold it too: as on a GPU, they wait for
/// running kernels.
std::unique_lock<std::mutex> lock_launches();

/// JSON of the calling thread's last dispatch: see docs/internals.md.
const std::string& last_report();

}  // namespace asmevo::emulator::hip
