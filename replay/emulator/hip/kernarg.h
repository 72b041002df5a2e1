// The kernarg segment of a launch: the caller's arguments and the hidden ones that the runtime
// supplies.
#pragma once

#include <cstdint>
#include <vector>

#include "hip/types.h"
#include "loader/code_object.h"

namespace asmevo::emulator::hip {

struct LaunchShape {
    Dim3 grid;                // in workgroups, partial ones too
    Dim3 block;               // in work-items
    Dim3 remainder{0, 0, 0};  // work-items of a partial last workgroup
    uint32_t dynamic_lds = 0;
};

/// Where the hidden arguments that are pointers point; 0 for what a launch has not.
struct HiddenPointers {
    uint64_t queue = 0, printf_buffer = 0, hostcall_buffer = 0, heap = 0, grid_sync = 0;
};

/// Fills `segment` (kernarg_size bytes) from `params` (one pointer an explicit argument) or from
/// `extra` (a buffer and its size), then the hidden arguments.
Error build_kernarg(const LoadedKernel& kernel, const LaunchShape& shape, void* const* params,
                    void* const* extra, const HiddenPointers& hidden, uint8_t* segment);

/// Whether the kernel has a hidden argument of that kind.
bool has_argument(const LoadedKernel& kernel, ValueKind kind);

}  // namespace asmevo::emulator::hip
