// Runs the workgroups of a dispatch.
#include "exec/dispatch.h"

#include <exception>

#include "exec/grid_run.h"
#include "exec/occupancy.h"

namespace asmevo::emulator {
namespace {

constexpr uint64_t kMaxWorkgroups = uint64_t{1} << 32;
constexpr uint32_t kMaxWorkItems = 1024;
constexpr uint32_t kMaxScratchBytes = 1u << 20;  // a lane

/// Why the dispatch cannot start; empty when it can.
std::string refusal(const DispatchRequest& request) {
    const KernelImage& kernel = *request.kernel;
    const Dim3 &grid = request.grid, &block = request.block;
    uint64_t items = uint64_t{block.x} * block.y * block.z;
    if (block.x == 0 || block.y == 0 || block.z == 0 || block.x > kMaxWorkItems ||
        block.y > kMaxWorkItems || block.z > kMaxWorkItems || items > kMaxWorkItems) {
        return "a workgroup has 1 to 1024 work-items, not " + std::to_string(items);
    }
    uint64_t lds = uint64_t{kernel.group_segment_size} + request.dynamic_lds;
    if (lds > lds_bytes_per_unit(kernel.target)) {
        return "needs " + std::to_string(lds) + " bytes of LDS, the device has " +
               std::to_string(lds_bytes_per_unit(kernel.target));
    }
    if (resident_workgroups(request) == 0) {
        VgprAllocation registers = vgpr_allocation(kernel);
        return "a compute unit has no room for " + std::to_string((items + kLanes - 1) / kLanes) + " waves of " +
               std::to_string(registers.arch + registers.acc) + " vector registers";
    }
    if (scratch_bytes_per_lane(kernel) > kMaxScratchBytes) {
        return "needs " + std::to_string(scratch_bytes_per_lane(kernel)) + " bytes of scratch a lane";
    }
    if (uint64_t{grid.x} * grid.y > kMaxWorkgroups ||
        uint64_t{grid.x} * grid.y * grid.z > kMaxWorkgroups) {
        return "more than 2^32 workgroups";
    }
    return "";
}

}  // namespace

DispatchResult run_dispatch(const DispatchRequest& request, const DispatchOptions& options) {
    DispatchResult result;
    result.fast_matrix = options.fast_matrix;
    try {
        std::string reason = refusal(request);
        if (!reason.empty()) {
            result.report = "kernel " + request.kernel->name + ": " + reason;
            return result;
        }
        GridRun(request, options).run(result);
    } catch (const std::exception& error) {
        result.report = std::string("kernel ") + request.kernel->name + ": " + error.what();
    }
    if (options.fast_matrix && !result.report.empty()) {
        result.report += "\nmatrix operations ran in the approximate mode (mfma=fast)";
    }
    return result;
}

}  // namespace asmevo::emulator
