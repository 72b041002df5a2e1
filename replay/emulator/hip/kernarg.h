// The kernarg segment of a launch: the caller's arguments and the hidden ones that the runtime
// supplies.
#pragma once

#include <cstdint>
#include <vector>

#include "hip/types.h"
#include "loader/code_object.h"

namespace asmevo::emulator::hip {

struct LaunchShape {
    Dim3 grid;   // in workgroups
    Dim3 block;  // in work-items
    uint32_t dynamic_lds = 0;
};

/// Fills `segment` (kernarg_size bytes) from `params` (one pointer an explicit argument) or from
/// `extra` (a buffer and its size), then the hidden arguments. `queue_address` is what a hidden
/// queue pointer gets.
Error build_kernarg(const LoadedKernel& kernel, const LaunchShape& shape, void* const* params,
                    void* const* extra, uint64_t queue_address, uint8_t* segment);

}  // namespace asmevo::emulator::hip
