#include "hip/launch.h"

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstring>
#include <limits>
#include <mutex>

#include "hip/api.h"
#include "hip/device.h"
#include "hip/hostcall.h"
#include "hip/log.h"
#include "hip/printf_buffer.h"
#include "hip/report.h"
#include "hip/report_file.h"
#include "hip/stream.h"
#include "memory/address_space.h"
#include "memory/arena.h"
#include "memory/host_mappings.h"

namespace asmevo::emulator::hip {
namespace {

/// hsa_kernel_dispatch_packet_t.
struct DispatchPacket {
    uint16_t header, setup;
    uint16_t workgroup_size_x, workgroup_size_y, workgroup_size_z, reserved0;
    uint32_t grid_size_x, grid_size_y, grid_size_z;
    uint32_t private_segment_size, group_segment_size;
    uint64_t kernel_object, kernarg_address, reserved2, completion_signal;
};
static_assert(sizeof(DispatchPacket) == 64);

/// Memory that the runtime hands to a kernel beside its arguments. Used by one launch at a time.
struct LaunchMemory {
    static constexpr uint64_t kQueueSize = 256;         // amd_queue_t, zeroed
    static constexpr uint64_t kGridSyncSize = 64;       // more than GridSync
    static constexpr uint64_t kKernargSpace = 1 << 17;  // more than a kernarg segment may take

    uint64_t queue = 0, packet = 0, kernarg = 0, grid_sync = 0;

    /// False when there is no memory.
    bool prepare() {
        if (kernarg != 0) {
            return true;
        }
        queue = Arena::get().map(Area::kRuntime, kQueueSize);
        packet = Arena::get().map(Area::kRuntime, sizeof(DispatchPacket));
        kernarg = Arena::get().map(Area::kRuntime, kKernargSpace);
        grid_sync = Arena::get().map(Area::kRuntime, kGridSyncSize);
        if (queue == 0 || packet == 0 || kernarg == 0 || grid_sync == 0) {
            return kernarg = 0, false;
        }
        AddressSpace::get().add({queue, kQueueSize, MemoryKind::kKernarg, false});
        AddressSpace::get().add({packet, sizeof(DispatchPacket), MemoryKind::kKernarg, false});
        AddressSpace::get().add({grid_sync, kGridSyncSize, MemoryKind::kKernarg, true});
        return true;
    }
};

std::mutex g_mutex;
LaunchMemory g_memory;
thread_local std::string t_report = "{}";

/// What a cooperative launch's workgroups meet in: mg_info of ROCm device-libs, ockl/src/cg.cl.
struct GridSync {
    uint64_t multi_grid;
    uint32_t grid_id, grids;
    uint64_t previous_sum, all_sum;
    uint32_t arrived, unused;
    uint32_t workgroups, padding;
    uint32_t multi_grid_arrived, unused2;  // what `multi_grid` points to
};
static_assert(offsetof(GridSync, workgroups) == 40);

/// Only the pointers that the kernel has arguments for. False when there is no memory.
bool find_hidden(const Launch& launch, HiddenPointers& out) {
    const Function& function = *launch.function;
    const auto has = [&](ValueKind kind) { return has_argument(function, kind); };
    {
        std::lock_guard lock(g_mutex);
        if (!g_memory.prepare()) {
            return false;
        }
        out.queue = g_memory.queue;
        out.grid_sync = launch.is_cooperative ? g_memory.grid_sync : 0;
    }
    if (has(ValueKind::kHiddenHostcallBuffer)) {
        const HostcallService* service = HostcallService::get();
        out.hostcall_buffer = service ? service->address() : 0;
    }
    if (has(ValueKind::kHiddenHeap)) {
        out.heap = device_heap_address();
    }
    if (has(ValueKind::kHiddenPrintfBuffer)) {
        out.printf_buffer = printf_buffer_address();
    }
    return (out.hostcall_buffer != 0 || !has(ValueKind::kHiddenHostcallBuffer)) &&
           (out.heap != 0 || !has(ValueKind::kHiddenHeap)) &&
           (out.printf_buffer != 0 || !has(ValueKind::kHiddenPrintfBuffer));
}

// Compilers widen scalar loads to the kernarg segment's alignment.
constexpr uint64_t kKernargUnit = 16;

/// The kernarg segment is visible to the device for one launch, with its size rounded up to
/// kKernargUnit.
class VisibleKernarg {
  public:
    VisibleKernarg(uint64_t address, uint64_t size) : address_(size == 0 ? 0 : address) {
        if (address_ != 0) {
            AddressSpace::get().add(
                {address, round_up(size, kKernargUnit), MemoryKind::kKernarg, true});
        }
    }
    ~VisibleKernarg() {
        if (address_ != 0) {
            AddressSpace::get().remove(address_);
        }
    }
    VisibleKernarg(const VisibleKernarg&) = delete;
    VisibleKernarg& operator=(const VisibleKernarg&) = delete;

  private:
    uint64_t address_;
};

bool has_zero(const Dim& dim) {
    return dim.x == 0 || dim.y == 0 || dim.z == 0;
}

/// HIP limits the work-items of a grid's dimension to 32 bits.
bool fits(uint32_t groups, uint32_t size) {
    return static_cast<uint64_t>(groups) * size <= UINT32_MAX;
}

Error refuse(const Launch& launch, Error error, const char* why) {
    log_error("launch of %s refused: %s", launch.function->metadata.name.c_str(), why);
    return error;
}

Error check(const Launch& launch) {
    const Function& function = *launch.function;
    const Dim& block = launch.block;
    if (has_zero(launch.grid) || has_zero(block)) {
        return refuse(launch, kInvalidConfiguration,
                      "a dimension of the grid or the block is zero");
    }
    const bool in_range = block.x <= 1024 && block.y <= 1024 && block.z <= 1024;
    const uint64_t threads = static_cast<uint64_t>(block.x) * block.y * block.z;
    if (!in_range || threads > 1024) {
        return refuse(launch, kInvalidConfiguration, "the block has more than 1024 work-items");
    }
    if (threads > function.metadata.max_flat_workgroup_size) {
        return refuse(launch, kInvalidConfiguration,
                      "the block is larger than the kernel's max_flat_workgroup_size");
    }
    const auto& required = function.metadata.required_workgroup_size;
    if (required[0] != 0 &&
        (required[0] != block.x || required[1] != block.y || required[2] != block.z)) {
        return refuse(launch, kInvalidConfiguration,
                      "the block is not of the kernel's reqd_workgroup_size");
    }
    const Dim& remainder = launch.remainder;
    if ((remainder.x != 0 || remainder.y != 0 || remainder.z != 0) &&
        function.metadata.has_uniform_workgroups) {
        return refuse(launch, kInvalidValue,
                      "the grid ends with a partial workgroup, but the kernel was compiled for whole "
                      "ones (-foffload-uniform-block)");
    }
    if (!fits(launch.grid.x, block.x) || !fits(launch.grid.y, block.y) ||
        !fits(launch.grid.z, block.z)) {
        return refuse(launch, kInvalidConfiguration,
                      "the grid has more than 2^32 - 1 work-items in a dimension");
    }
    const uint64_t lds = chip().lds_bytes;
    if (launch.dynamic_lds > lds || function.image.group_segment_size > lds - launch.dynamic_lds) {
        return refuse(launch, kLaunchOutOfResources,
                      "the block needs more LDS than a compute unit has");
    }
    if (launch.is_cooperative) {
        const uint64_t groups = static_cast<uint64_t>(launch.grid.x) * launch.grid.y;
        const uint64_t capacity =
            static_cast<uint64_t>(chip().compute_units) *
            max_active_blocks(function, static_cast<uint32_t>(threads), launch.dynamic_lds);
        if (groups > capacity || groups * launch.grid.z > capacity) {
            return refuse(launch, kCooperativeLaunchTooLarge,
                          "not all workgroups fit on the device at once");
        }
    }
    return kSuccess;
}

uint32_t work_items(uint32_t groups, uint32_t block, uint32_t remainder) {
    return remainder == 0 ? groups * block : (groups - 1) * block + remainder;
}

void write_packet(uint64_t address, const PreparedLaunch& launch, uint64_t kernarg) {
    constexpr uint16_t kKernelDispatch = 2, kBarrier = 1 << 8;
    constexpr uint16_t kSystemAcquire = 2 << 9, kSystemRelease = 2 << 11;
    const LaunchShape& shape = launch.shape;
    DispatchPacket packet{};
    packet.header = kKernelDispatch | kBarrier | kSystemAcquire | kSystemRelease;
    packet.setup = 3;  // dimensions
    packet.workgroup_size_x = static_cast<uint16_t>(shape.block.x);
    packet.workgroup_size_y = static_cast<uint16_t>(shape.block.y);
    packet.workgroup_size_z = static_cast<uint16_t>(shape.block.z);
    packet.grid_size_x = work_items(shape.grid.x, shape.block.x, shape.remainder.x);
    packet.grid_size_y = work_items(shape.grid.y, shape.block.y, shape.remainder.y);
    packet.grid_size_z = work_items(shape.grid.z, shape.block.z, shape.remainder.z);
    packet.private_segment_size = launch.function->image.private_segment_size;
    packet.group_segment_size = launch.function->image.group_segment_size + shape.dynamic_lds;
    packet.kernel_object = launch.function->image.descriptor_address;
    packet.kernarg_address = kernarg;
    std::memcpy(reinterpret_cast<void*>(address), &packet, sizeof packet);
}

void write_grid_sync(const PreparedLaunch& launch) {
    const Dim3 &grid = launch.shape.grid, &block = launch.shape.block;
    GridSync sync{};
    sync.workgroups = grid.x * grid.y * grid.z;
    if (launch.is_multi_grid) {
        sync.multi_grid = g_memory.grid_sync + offsetof(GridSync, multi_grid_arrived);
        sync.grids = 1;
        sync.all_sum = uint64_t{sync.workgroups} * block.x * block.y * block.z;
    }
    std::memcpy(reinterpret_cast<void*>(g_memory.grid_sync), &sync, sizeof sync);
}

/// What the host does for a launch while it runs and behind it.
class LaunchServices {
  public:
    LaunchServices(const PreparedLaunch& launch, DispatchRequest& request)
        : launch_(launch),
          hostcall_(has_argument(*launch.function, ValueKind::kHiddenHostcallBuffer)
                        ? HostcallService::get()
                        : nullptr),
          prints_(has_argument(*launch.function, ValueKind::kHiddenPrintfBuffer)) {
        if (hostcall_) {
            hostcall_->begin_launch();
            request.host_service = hostcall_;
        }
        if (prints_) {
            clear_printf_buffer();
        }
        if (launch.is_cooperative) {
            write_grid_sync(launch);
        }
    }
    ~LaunchServices() {
        if (hostcall_) {
            hostcall_->end_launch();
        }
        if (prints_) {
            print_printf_buffer(launch_.keep_alive->printf_formats());
        }
    }
    LaunchServices(const LaunchServices&) = delete;
    LaunchServices& operator=(const LaunchServices&) = delete;

    bool has_failed_assertion() const { return hostcall_ && hostcall_->has_failed_assertion(); }

  private:
    const PreparedLaunch& launch_;
    HostcallService* hostcall_;
    bool prints_;
};

}  // namespace

Error run_kernel(const PreparedLaunch& launch) {
    const Function& function = *launch.function;
    const LaunchShape& shape = launch.shape;
    const auto lock = lock_launches();
    auto* segment = reinterpret_cast<uint8_t*>(g_memory.kernarg);
    std::memset(std::copy(launch.kernarg.begin(), launch.kernarg.end(), segment), 0, kKernargUnit);
    const VisibleKernarg visible(g_memory.kernarg, launch.kernarg.size());
    write_packet(g_memory.packet, launch, g_memory.kernarg);
    DispatchRequest request;
    request.kernel = &function.image;
    request.grid = shape.grid;
    request.block = shape.block;
    request.remainder = shape.remainder;
    request.dynamic_lds = shape.dynamic_lds;
    request.kernarg_address = g_memory.kernarg;
    request.dispatch_packet_address = g_memory.packet;
    request.compute_units = chip().compute_units;
    const LaunchServices services(launch, request);
    distrust_host_mappings();
    const DispatchResult result = run_dispatch(request, dispatch_options());
    t_report = format_report(function, result);
    keep_report(function, result, t_report);
    if (!result.ok) {
        log_error("launch of %s failed\n%s", function.metadata.name.c_str(), result.report.c_str());
        const Error error = services.has_failed_assertion() ? kAssert : kLaunchFailure;
        set_sticky_error(error);
        return error;
    }
    log_info("launch of %s: grid %u,%u,%u block %u,%u,%u, %" PRIu64 " wave instructions, %" PRIu64
             " modelled cycles",
             function.metadata.name.c_str(), shape.grid.x, shape.grid.y, shape.grid.z,
             shape.block.x, shape.block.y, shape.block.z, result.wave_instructions,
             result.modelled_cycles);
    return kSuccess;
}

Error prepare_launch(const Launch& launch, PreparedLaunch& out) {
    out.keep_alive = find_function(launch.function);
    if (!out.keep_alive) {
        return kInvalidHandle;
    }
    if (const Error error = check(launch); error != kSuccess) {
        return error;
    }
    HiddenPointers hidden;
    if (!find_hidden(launch, hidden)) {
        return kOutOfMemory;
    }
    out.function = launch.function;
    out.symbol = launch.symbol ? launch.symbol : launch.function;
    out.shape.grid = {launch.grid.x, launch.grid.y, launch.grid.z};
    out.shape.block = {launch.block.x, launch.block.y, launch.block.z};
    out.shape.remainder = {launch.remainder.x, launch.remainder.y, launch.remainder.z};
    out.shape.dynamic_lds = static_cast<uint32_t>(launch.dynamic_lds);
    out.is_cooperative = launch.is_cooperative;
    out.is_multi_grid = launch.is_multi_grid;
    out.kernarg.resize(launch.function->image.kernarg_size);
    return build_kernarg(*launch.function, out.shape, launch.params, launch.extra, hidden,
                         out.kernarg.data());
}

Error run_launch(const Launch& launch) {
    if (!is_stream(launch.stream)) {
        return kInvalidHandle;
    }
    auto prepared = std::make_shared<PreparedLaunch>();
    const Error error = prepare_launch(launch, *prepared);
    return error == kSuccess ? submit(launch.stream, KernelOperation{std::move(prepared)}) : error;
}

std::unique_lock<std::mutex> lock_launches() {
    return std::unique_lock(g_mutex);
}

const std::string& last_report() {
    return t_report;
}

}  // namespace asmevo::emulator::hip
