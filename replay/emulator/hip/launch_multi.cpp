// Launches on several devices at once, of which there is one.
#include "hip/api.h"
#include "hip/launch.h"

namespace asmevo::emulator::hip {
namespace {

/// hipLaunchParams.
struct SymbolLaunch {
    const void* symbol;
    Dim grid, block;
    void** params;
    size_t dynamic_lds;
    Stream* stream;
};
static_assert(sizeof(SymbolLaunch) == 56);

/// hipFunctionLaunchParams.
struct FunctionLaunch {
    const Function* function;
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, dynamic_lds;
    Stream* stream;
    void** params;
};
static_assert(sizeof(FunctionLaunch) == 56);

Error launch(const SymbolLaunch* launches, int count, bool is_cooperative) {
    if (!launches || count != 1) {
        return kInvalidValue;
    }
    const SymbolLaunch& given = *launches;
    Launch launch;
    if (const Error error = resolve_symbol(given.symbol, launch.function); error != kSuccess) {
        return error;
    }
    launch.symbol = given.symbol;
    launch.grid = given.grid;
    launch.block = given.block;
    launch.dynamic_lds = given.dynamic_lds;
    launch.stream = given.stream;
    launch.params = given.params;
    launch.is_cooperative = launch.is_multi_grid = is_cooperative;
    return run_launch(launch);
}

}  // namespace

HIP_SLOT(hipLaunchCooperativeKernelMultiDevice)(SymbolLaunch* launches, int count, unsigned) {
    return api([&] { return launch(launches, count, true); });
}
HIP_SLOT(hipExtLaunchMultiKernelMultiDevice)(SymbolLaunch* launches, int count, unsigned) {
    return api([&] { return launch(launches, count, false); });
}
HIP_SLOT(hipModuleLaunchCooperativeKernelMultiDevice)(FunctionLaunch* launches, unsigned count,
                                                      unsigned) {
    return api([&] {
        if (!launches || count != 1) {
            return kInvalidValue;
        }
        const FunctionLaunch& given = *launches;
        Launch launch;
        launch.function = given.function;
        launch.grid = {given.grid_x, given.grid_y, given.grid_z};
        launch.block = {given.block_x, given.block_y, given.block_z};
        launch.dynamic_lds = given.dynamic_lds;
        launch.stream = given.stream;
        launch.params = given.params;
        launch.is_cooperative = launch.is_multi_grid = true;
        return run_launch(launch);
    });
}

}  // namespace asmevo::emulator::hip
