// Attributes and occupancy of functions.
#include <algorithm>

#include "exec/occupancy.h"
#include "hip/api.h"
#include "hip/device.h"
#include "hip/module.h"
#include "memory/arena.h"

namespace asmevo::emulator::hip {
namespace {

constexpr uint32_t kMaxBlockThreads = 1024;

uint64_t max_dynamic_lds(const Function& function) {
    return chip().lds_bytes - std::min(chip().lds_bytes, function.image.group_segment_size);
}

/// hipFunction_attribute.
bool find_attribute(const Function& function, int attribute, int& out) {
    switch (attribute) {
        case 0:
            out = static_cast<int>(function.metadata.max_flat_workgroup_size);
            return true;
        case 1:
            out = static_cast<int>(function.image.group_segment_size);
            return true;
        case 2:
            out = 0;
            return true;  // constant memory
        case 3:
            out = static_cast<int>(function.image.private_segment_size);
            return true;
        case 4:
            out = static_cast<int>(function.metadata.vgpr_count);
            return true;
        case 5:
        case 6:
            out = 90;
            return true;  // PTX and binary version, as ROCm answers: major and minor 9.0
        case 7:
            out = 0;
            return true;  // cache mode
        case 8:
            out = static_cast<int>(max_dynamic_lds(function));
            return true;
        case 9:
            out = 0;
            return true;  // carve-out
        default:
            return false;
    }
}

Error count_blocks(int* blocks, const Function* function, int threads, size_t dynamic_lds) {
    if (!blocks || threads <= 0) {
        return kInvalidValue;
    }
    const auto keep_alive = find_function(function);
    if (!keep_alive) {
        return kInvalidDeviceFunction;
    }
    *blocks =
        static_cast<int>(max_active_blocks(*function, static_cast<uint32_t>(threads), dynamic_lds));
    return kSuccess;
}

Error suggest_block(int* grid, int* block, const Function* function, size_t dynamic_lds,
                    int limit) {
    const auto keep_alive = find_function(function);
    if (!grid || !block || !keep_alive) {
        return grid && block ? kInvalidDeviceFunction : kInvalidValue;
    }
    uint32_t best = 64, best_threads = 0;
    uint32_t top = function->metadata.max_flat_workgroup_size;
    top = std::min(limit > 0 ? std::min(top, static_cast<uint32_t>(limit)) : top, kMaxBlockThreads);
    for (uint32_t threads = 64; threads <= top; threads += 64) {
        const uint32_t active = max_active_blocks(*function, threads, dynamic_lds) * threads;
        if (active >= best_threads) {
            best = threads;
            best_threads = active;
        }
    }
    *block = static_cast<int>(best);
    *grid = static_cast<int>(std::max(best_threads / best, 1u) * chip().compute_units);
    return kSuccess;
}

}  // namespace

uint32_t max_active_blocks(const Function& function, uint32_t threads, uint64_t dynamic_lds) {
    if (threads == 0 || threads > function.metadata.max_flat_workgroup_size ||
        dynamic_lds > chip().lds_bytes) {
        return 0;
    }
    return workgroups_per_unit(function.image, threads, dynamic_lds);
}

HIP_SLOT(hipFuncGetAttribute)(int* value, int attribute, const Function* function) {
    return api([&] {
        const auto keep_alive = find_function(function);
        if (!value || !keep_alive) {
            return value ? kInvalidDeviceFunction : kInvalidValue;
        }
        return find_attribute(*function, attribute, *value) ? kSuccess : kInvalidValue;
    });
}

HIP_SLOT(hipFuncGetAttributes)(FunctionAttributes* out, const void* symbol) {
    return api([&] {
        const Function* function;
        if (Error error = resolve_symbol(symbol, function); error != kSuccess || !out) {
            return out ? error : kInvalidValue;
        }
        *out = {};
        out->binary_version = out->ptx_version = 90;
        out->local_size_bytes = function->image.private_segment_size;
        out->max_dynamic_shared_size_bytes = static_cast<int>(max_dynamic_lds(*function));
        out->max_threads_per_block = static_cast<int>(function->metadata.max_flat_workgroup_size);
        out->num_regs = static_cast<int>(function->metadata.vgpr_count);
        out->shared_size_bytes = function->image.group_segment_size;
        return kSuccess;
    });
}

// Hints: all of LDS is available to every launch.
HIP_SLOT(hipFuncSetAttribute)(const void* symbol, int, int) {
    return api([&] { return symbol ? kSuccess : kInvalidDeviceFunction; });
}
HIP_SLOT(hipFuncSetCacheConfig)(const void*, int) {
    return api([] { return kSuccess; });
}
HIP_SLOT(hipFuncSetSharedMemConfig)(const void*, int) {
    return api([] { return kSuccess; });
}

HIP_SLOT(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor)(int* blocks, const Function* function,
                                                             int threads, size_t dynamic_lds) {
    return api([&] { return count_blocks(blocks, function, threads, dynamic_lds); });
}
HIP_SLOT(hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(
    int* blocks, const Function* function, int threads, size_t dynamic_lds, unsigned) {
    return api([&] { return count_blocks(blocks, function, threads, dynamic_lds); });
}
HIP_SLOT(hipOccupancyMaxActiveBlocksPerMultiprocessor)(int* blocks, const void* symbol, int threads,
                                                       size_t dynamic_lds) {
    return api([&] {
        const Function* function;
        const Error error = resolve_symbol(symbol, function);
        return error == kSuccess ? count_blocks(blocks, function, threads, dynamic_lds) : error;
    });
}
HIP_SLOT(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(int* blocks, const void* symbol,
                                                                int threads, size_t dynamic_lds,
                                                                unsigned) {
    return slot_hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, symbol, threads, dynamic_lds);
}
HIP_SLOT(hipModuleOccupancyMaxPotentialBlockSize)(int* grid, int* block, const Function* function,
                                                  size_t dynamic_lds, int limit) {
    return api([&] { return suggest_block(grid, block, function, dynamic_lds, limit); });
}
HIP_SLOT(hipOccupancyMaxPotentialBlockSize)(int* grid, int* block, const void* symbol,
                                            size_t dynamic_lds, int limit) {
    return api([&] {
        const Function* function;
        const Error error = resolve_symbol(symbol, function);
        return error == kSuccess ? suggest_block(grid, block, function, dynamic_lds, limit) : error;
    });
}

}  // namespace asmevo::emulator::hip
