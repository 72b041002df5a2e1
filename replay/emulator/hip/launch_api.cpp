// The launch functions of the API: each is a view on one Launch.
#include <algorithm>

#include "hip/api.h"
#include "hip/launch.h"

struct ihipEvent_t;

namespace asmevo::emulator::hip {

HIP_SLOT(hipEventRecord)(ihipEvent_t* event, Stream* stream);

namespace {

/// Launches with extents in work-items: the last workgroup of a dimension may be a partial one, and
/// no block is larger than the grid.
Error launch_work_items(Launch launch, const Dim& work_items, ihipEvent_t* start,
                        ihipEvent_t* stop) {
    const auto divide = [](uint32_t items, uint32_t& block, uint32_t& remainder) {
        block = std::min(block, items);
        if (block == 0) {
            return 0u;  // refused later
        }
        remainder = items % block;
        return items / block + (remainder != 0);
    };
    Dim &block = launch.block, &rest = launch.remainder;
    launch.grid = {divide(work_items.x, block.x, rest.x), divide(work_items.y, block.y, rest.y),
                   divide(work_items.z, block.z, rest.z)};
    auto* stream = const_cast<Stream*>(launch.stream);
    Error error = start ? slot_hipEventRecord(start, stream) : kSuccess;
    error = error == kSuccess ? run_launch(launch) : error;
    return error == kSuccess && stop ? slot_hipEventRecord(stop, stream) : error;
}

Error launch_symbol(const void* symbol, Launch launch) {
    const Error error = resolve_symbol(symbol, launch.function);
    launch.symbol = symbol;
    return error == kSuccess ? run_launch(launch) : error;
}

bool asks_cooperative(const LaunchAttribute* attributes, unsigned count) {
    for (unsigned i = 0; attributes && i < count; ++i) {
        if (attributes[i].id == kLaunchAttributeCooperative &&
            attributes[i].value.cooperative != 0) {
            return true;
        }
    }
    return false;
}

}  // namespace

HIP_SLOT(hipModuleLaunchKernel)(const Function* function, unsigned grid_x, unsigned grid_y,
                                unsigned grid_z, unsigned block_x, unsigned block_y,
                                unsigned block_z, unsigned dynamic_lds, Stream* stream,
                                void** params, void** extra) {
    return api([&] {
        return run_launch({function,
                           {grid_x, grid_y, grid_z},
                           {block_x, block_y, block_z},
                           dynamic_lds,
                           stream,
                           params,
                           extra,
                           false});
    });
}

HIP_SLOT(hipModuleLaunchCooperativeKernel)(const Function* function, unsigned grid_x,
                                           unsigned grid_y, unsigned grid_z, unsigned block_x,
                                           unsigned block_y, unsigned block_z, unsigned dynamic_lds,
                                           Stream* stream, void** params) {
    return api([&] {
        return run_launch({function,
                           {grid_x, grid_y, grid_z},
                           {block_x, block_y, block_z},
                           dynamic_lds,
                           stream,
                           params,
                           nullptr,
                           true});
    });
}

HIP_SLOT(hipExtModuleLaunchKernel)(const Function* function, uint32_t global_x, uint32_t global_y,
                                   uint32_t global_z, uint32_t block_x, uint32_t block_y,
                                   uint32_t block_z, size_t dynamic_lds, Stream* stream,
                                   void** params, void** extra, ihipEvent_t* start,
                                   ihipEvent_t* stop, uint32_t) {
    return api([&] {
        const Launch launch{
            function, {}, {block_x, block_y, block_z}, dynamic_lds, stream, params, extra, false};
        return launch_work_items(launch, {global_x, global_y, global_z}, start, stop);
    });
}

HIP_SLOT(hipHccModuleLaunchKernel)(const Function* function, uint32_t global_x, uint32_t global_y,
                                   uint32_t global_z, uint32_t block_x, uint32_t block_y,
                                   uint32_t block_z, size_t dynamic_lds, Stream* stream,
                                   void** params, void** extra, ihipEvent_t* start,
                                   ihipEvent_t* stop) {
    return slot_hipExtModuleLaunchKernel(function, global_x, global_y, global_z, block_x, block_y,
                                         block_z, dynamic_lds, stream, params, extra, start, stop,
                                         0);
}

HIP_SLOT(hipDrvLaunchKernelEx)(const DriverLaunchConfig* config, const Function* function,
                               void** params, void** extra) {
    return api([&] {
        if (!config) {
            return kInvalidValue;
        }
        return run_launch({function,
                           {config->grid_x, config->grid_y, config->grid_z},
                           {config->block_x, config->block_y, config->block_z},
                           config->dynamic_lds_bytes,
                           config->stream,
                           params,
                           extra,
                           asks_cooperative(config->attributes, config->attribute_count)});
    });
}

HIP_SLOT(hipLaunchKernelExC)(const LaunchConfig* config, const void* symbol, void** params) {
    return api([&] {
        if (!config) {
            return kInvalidValue;
        }
        return launch_symbol(
            symbol,
            {nullptr, config->grid, config->block, config->dynamic_lds_bytes, config->stream,
             params, nullptr, asks_cooperative(config->attributes, config->attribute_count)});
    });
}

HIP_SLOT(hipLaunchKernel)(const void* symbol, Dim grid, Dim block, void** params,
                          size_t dynamic_lds, Stream* stream) {
    return api([&] {
        return launch_symbol(symbol,
                             {nullptr, grid, block, dynamic_lds, stream, params, nullptr, false});
    });
}
HIP_SLOT(hipLaunchKernel_spt)(const void* symbol, Dim grid, Dim block, void** params,
                              size_t dynamic_lds, Stream* stream) {
    return slot_hipLaunchKernel(symbol, grid, block, params, dynamic_lds, stream);
}

HIP_SLOT(hipExtLaunchKernel)(const void* symbol, Dim grid, Dim block, void** params,
                             size_t dynamic_lds, Stream* stream, ihipEvent_t* start,
                             ihipEvent_t* stop, int) {
    Error error = start ? slot_hipEventRecord(start, stream) : kSuccess;
    error = error == kSuccess
                ? slot_hipLaunchKernel(symbol, grid, block, params, dynamic_lds, stream)
                : error;
    return error == kSuccess && stop ? slot_hipEventRecord(stop, stream) : error;
}

HIP_SLOT(hipLaunchCooperativeKernel)(const void* symbol, Dim grid, Dim block, void** params,
                                     unsigned dynamic_lds, Stream* stream) {
    return api([&] {
        return launch_symbol(symbol,
                             {nullptr, grid, block, dynamic_lds, stream, params, nullptr, true});
    });
}
HIP_SLOT(hipLaunchCooperativeKernel_spt)(const void* symbol, Dim grid, Dim block, void** params,
                                         unsigned dynamic_lds, Stream* stream) {
    return slot_hipLaunchCooperativeKernel(symbol, grid, block, params, dynamic_lds, stream);
}

}  // namespace asmevo::emulator::hip
