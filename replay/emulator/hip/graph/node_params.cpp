#include "hip/graph/node_params.h"

#include "hip/compiler.h"
#include "hip/graph/allocation_node.h"
#include "hip/stream.h"

namespace asmevo::emulator::hip {

Error make_operation(const KernelNodeParams& params, Operation& out) {
    Launch launch;
    if (!params.function) {
        return kInvalidValue;
    }
    if (const Error error = resolve_symbol(params.function, launch.function); error != kSuccess) {
        return error;
    }
    launch.grid = params.grid;
    launch.block = params.block;
    launch.dynamic_lds = params.dynamic_lds;
    launch.params = params.params;
    launch.extra = params.extra;
    launch.symbol = params.function;
    auto prepared = std::make_shared<PreparedLaunch>();
    const Error error = prepare_launch(launch, *prepared);
    out = KernelOperation{std::move(prepared)};
    return error;
}

Error make_operation(const Copy3D& params, Operation& out) {
    out = CopyOperation{params};
    return check_copy(params);
}

Error make_operation(const Fill& params, Operation& out) {
    if (params.width == 0 || params.height == 0) {
        return kInvalidValue;
    }
    out = FillOperation{{params}};
    const Error error = check_fill({params});
    // Memory of a graph is there only while it runs.
    const bool is_checked_later = is_graph_memory(reinterpret_cast<uint64_t>(params.to));
    return error == kSuccess && !is_checked_later && !is_fillable({params}) ? kInvalidValue : error;
}

Error make_operation(const HostNodeParams& params, Operation& out) {
    out = HostOperation{params.function, params.data};
    return params.function ? kSuccess : kInvalidValue;
}

Error make_operation(const Graph* child, Operation& out) {
    const Graph* graph = find_graph(child);
    if (!graph) {
        return kInvalidValue;
    }
    out = GraphOperation{graph->clone()};
    return kSuccess;
}

Error make_operation(AllocationNodeParams& params, Operation& out) {
    constexpr int kPinned = 1, kDeviceLocation = 1;
    if (params.allocation_type != kPinned || params.location.type != kDeviceLocation ||
        params.location.id != 0 || params.size == 0) {
        return kInvalidValue;
    }
    auto memory = GraphAllocation::make(params.size);
    if (!memory) {
        return kOutOfMemory;
    }
    params.pointer = reinterpret_cast<void*>(memory->address());
    out = AllocationOperation{std::move(memory)};
    return kSuccess;
}

Error make_operation(NodeParams& params, Operation& out) {
    switch (params.type) {
        case NodeType::kKernel:
            return make_operation(params.kernel, out);
        case NodeType::kCopy:
            return params.copy.flags == 0 ? make_operation(params.copy.params, out) : kInvalidValue;
        case NodeType::kFill:
            return make_operation(params.fill, out);
        case NodeType::kHost:
            return make_operation(params.host, out);
        case NodeType::kGraph:
            return make_operation(params.graph, out);
        case NodeType::kEmpty:
            return out = EmptyOperation{}, kSuccess;
        case NodeType::kEventWait:
            out = EventWaitOperation{params.event};
            return is_event(params.event) ? kSuccess : kInvalidValue;
        case NodeType::kEventRecord:
            out = EventRecordOperation{params.event};
            return is_event(params.event) ? kSuccess : kInvalidValue;
        case NodeType::kAllocation:
            return make_operation(params.allocation, out);
        case NodeType::kFree:
            out = FreeOperation{params.pointer};
            return params.pointer ? kSuccess : kInvalidValue;
        default:
            return kInvalidValue;
    }
}

Error make_symbol_copy(const void* symbol, void* host, size_t size, size_t offset, int kind,
                       bool to_symbol, Operation& out) {
    LoadedVariable variable;
    if (const Error error = find_variable(symbol, variable); error != kSuccess) {
        return error;
    }
    if (!host || size == 0 || offset > variable.size || variable.size - offset < size) {
        return kInvalidValue;
    }
    const int host_kind = to_symbol ? kHostToDevice : kDeviceToHost;
    if (kind != host_kind && kind != kDeviceToDevice && kind != kDefaultCopy) {
        return kInvalidMemcpyDirection;
    }
    void* device = reinterpret_cast<void*>(variable.address + offset);
    out = to_symbol
              ? CopyOperation{linear_copy(device, host, size, kind), NodeType::kCopyToSymbol}
              : CopyOperation{linear_copy(host, device, size, kind), NodeType::kCopyFromSymbol};
    return kSuccess;
}

KernelNodeParams kernel_params(const KernelOperation& operation, std::vector<void*>& pointers) {
    const PreparedLaunch& launch = *operation.launch;
    pointers.clear();
    for (const KernelArgument& argument : launch.function->metadata.arguments) {
        if (!is_hidden(argument.kind)) {
            pointers.push_back(const_cast<uint8_t*>(launch.kernarg.data()) + argument.offset);
        }
    }
    const auto dim = [](const Dim3& size) { return Dim{size.x, size.y, size.z}; };
    return {dim(launch.shape.block), nullptr,         launch.symbol,
            dim(launch.shape.grid),  pointers.data(), launch.shape.dynamic_lds};
}

}  // namespace asmevo::emulator::hip
