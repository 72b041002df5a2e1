// The rarer questions about occupancy: see function.cpp.
#include "hip/api.h"
#include "hip/device.h"
#include "hip/module.h"

namespace asmevo::emulator::hip {

HIP_SLOT(hipModuleOccupancyMaxPotentialBlockSize)(int* grid, int* block, const Function* function,
                                                  size_t dynamic_lds, int limit);

HIP_SLOT(hipModuleOccupancyMaxPotentialBlockSizeWithFlags)(int* grid, int* block,
                                                           const Function* function,
                                                           size_t dynamic_lds, int limit,
                                                           unsigned) {
    return slot_hipModuleOccupancyMaxPotentialBlockSize(grid, block, function, dynamic_lds, limit);
}

/// The LDS that each of `blocks` workgroups on a compute unit may add to its static one.
HIP_SLOT(hipOccupancyAvailableDynamicSMemPerBlock)(size_t* bytes, const void* symbol, int blocks,
                                                   int threads) {
    return api([&] {
        const Function* function;
        if (!bytes || blocks <= 0 || threads <= 0) {
            return kInvalidValue;
        }
        if (const Error error = resolve_symbol(symbol, function); error != kSuccess) {
            return error;
        }
        const uint64_t share = chip().lds_bytes / static_cast<unsigned>(blocks);
        const uint64_t fixed = function->image.group_segment_size;
        *bytes = share > fixed ? share - fixed : 0;
        return kSuccess;
    });
}

}  // namespace asmevo::emulator::hip
