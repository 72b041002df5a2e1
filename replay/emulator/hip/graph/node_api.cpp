// Nodes: adding them, asking for their parameters, changing those in a graph or in an executable
// one.
#include <algorithm>

#include "hip/api.h"
#include "hip/graph/allocation_node.h"
#include "hip/graph/exec.h"
#include "hip/graph/node_params.h"
#include "hip/stream.h"

namespace asmevo::emulator::hip {

using Nodes = GraphNode* const*;

namespace {

/// Makes an operation of parameters given by pointer and hands it to `use`.
template <typename Params, typename Use>
Error with_operation(Params* params, Use&& use) {
    return api([&] {
        if (!params) {
            return kInvalidValue;
        }
        const GraphLock lock;
        Operation operation;
        const Error error = make_operation(*params, operation);
        return error == kSuccess ? use(std::move(operation)) : error;
    });
}

template <typename Params>
Error add_made(GraphNode** out, Graph* graph, Nodes dependencies, size_t count, Params* params) {
    return with_operation(params, [&](Operation operation) {
        return add_node(out, graph, dependencies, count, std::move(operation));
    });
}

template <typename Params>
Error set_made(GraphNode* node, Params* params) {
    return with_operation(params, [&](Operation operation) {
        return replace_operation(find_node(node), std::move(operation));
    });
}

template <typename Params>
Error set_exec_made(GraphExec* exec, GraphNode* node, Params* params) {
    return with_operation(params, [&](Operation operation) {
        return replace_operation(find_exec_node(exec, node), std::move(operation));
    });
}

/// Hands the operation of a node of one type to `use`.
template <typename Kind, typename Use>
Error with_kind(const GraphNode* handle, Use&& use) {
    return api([&] {
        const GraphLock lock;
        const GraphNode* node = find_node(handle);
        const Kind* kind = node ? std::get_if<Kind>(&node->operation) : nullptr;
        return kind ? use(*kind) : kInvalidValue;
    });
}

template <typename Value>
Error give(Value* out, const Value& value) {
    return out ? (*out = value, kSuccess) : kInvalidValue;
}

/// A symbol copy, handed to `use`.
template <typename Use>
Error with_symbol_copy(const void* symbol, const void* host, size_t size, size_t offset, int kind,
                       bool to_symbol, Use&& use) {
    return api([&] {
        Operation operation;
        const GraphLock lock;
        const Error error = make_symbol_copy(symbol, const_cast<void*>(host), size, offset, kind,
                                             to_symbol, operation);
        return error == kSuccess ? use(std::move(operation)) : error;
    });
}

template <typename Kind>
Error add_event_node(GraphNode** out, Graph* graph, Nodes dependencies, size_t count,
                     Event* event) {
    return api([&] {
        const GraphLock lock;
        return is_event(event) ? add_node(out, graph, dependencies, count, Kind{event}) : kInvalidValue;
    });
}

template <typename Kind>
Error set_event(GraphNode* (*find)(const GraphExec*, const GraphNode*), const GraphExec* exec,
                GraphNode* node, Event* event) {
    return api([&] {
        const GraphLock lock;
        return is_event(event) ? replace_operation(find(exec, node), Kind{event}) : kInvalidValue;
    });
}

GraphNode* find_own(const GraphExec*, const GraphNode* node) {
    return find_node(node);
}

Error add_free_node(GraphNode** out, Graph* graph, Nodes dependencies, size_t count,
                    void* pointer) {
    return api([&] {
        const GraphLock lock;
        return is_graph_memory(reinterpret_cast<uint64_t>(pointer))
                   ? add_node(out, graph, dependencies, count, FreeOperation{pointer})
                   : kInvalidValue;
    });
}

}  // namespace

Error add_node(GraphNode** out, const Graph* handle, Nodes dependencies, size_t count,
               Operation operation) {
    Graph* graph = find_graph(handle);
    if (!out || !graph || (count != 0 && !dependencies)) {
        return kInvalidValue;
    }
    const std::span given(dependencies, count);
    for (auto it = given.begin(); it != given.end(); ++it) {
        const GraphNode* node = find_node(*it);
        if (!node || node->graph != graph || std::find(given.begin(), it, *it) != it) {
            return kInvalidValue;
        }
    }
    *out = graph->add(std::move(operation), given).get();
    return kSuccess;
}

HIP_SLOT(hipGraphAddNode)(GraphNode** out, Graph* graph, Nodes dependencies, size_t count,
                          NodeParams* params) {
    return add_made(out, graph, dependencies, count, params);
}
HIP_SLOT(hipGraphNodeSetParams)(GraphNode* node, NodeParams* params) {
    return set_made(node, params);
}
HIP_SLOT(hipGraphExecNodeSetParams)(GraphExec* exec, GraphNode* node, NodeParams* params) {
    return set_exec_made(exec, node, params);
}

HIP_SLOT(hipGraphAddEmptyNode)(GraphNode** out, Graph* graph, Nodes dependencies, size_t count) {
    return api([&] {
        const GraphLock lock;
        return add_node(out, graph, dependencies, count, EmptyOperation{});
    });
}

HIP_SLOT(hipGraphAddMemcpyNode)(GraphNode** out, Graph* graph, Nodes dependencies, size_t count,
                                const Copy3D* params) {
    return add_made(out, graph, dependencies, count, params);
}
HIP_SLOT(hipGraphMemcpyNodeGetParams)(GraphNode* node, Copy3D* params) {
    return with_kind<CopyOperation>(
        node, [&](const CopyOperation& copy) { return give(params, copy.copy); });
}
HIP_SLOT(hipGraphMemcpyNodeSetParams)(GraphNode* node, const Copy3D* params) {
    return set_made(node, params);
}
HIP_SLOT(hipGraphExecMemcpyNodeSetParams)(GraphExec* exec, GraphNode* node, const Copy3D* params) {
    return set_exec_made(exec, node, params);
}

HIP_SLOT(hipGraphAddMemcpyNode1D)(GraphNode** out, Graph* graph, Nodes dependencies, size_t count,
                                  void* to, const void* from, size_t size, int kind) {
    const Copy3D copy = linear_copy(to, from, size, kind);
    return size == 0 ? record(kInvalidValue) : add_made(out, graph, dependencies, count, &copy);
}
HIP_SLOT(hipGraphMemcpyNodeSetParams1D)(GraphNode* node, void* to, const void* from, size_t size,
                                        int kind) {
    const Copy3D copy = linear_copy(to, from, size, kind);
    return size == 0 ? record(kInvalidValue) : set_made(node, &copy);
}
HIP_SLOT(hipGraphExecMemcpyNodeSetParams1D)(GraphExec* exec, GraphNode* node, void* to,
                                            const void* from, size_t size, int kind) {
    const Copy3D copy = linear_copy(to, from, size, kind);
    return size == 0 ? record(kInvalidValue) : set_exec_made(exec, node, &copy);
}

HIP_SLOT(hipGraphAddMemcpyNodeToSymbol)(GraphNode** out, Graph* graph, Nodes dependencies,
                                        size_t count, const void* symbol, const void* from,
                                        size_t size, size_t offset, int kind) {
    return with_symbol_copy(symbol, from, size, offset, kind, true, [&](Operation operation) {
        return add_node(out, graph, dependencies, count, std::move(operation));
    });
}
HIP_SLOT(hipGraphMemcpyNodeSetParamsToSymbol)(GraphNode* node, const void* symbol, const void* from,
                                              size_t size, size_t offset, int kind) {
    return with_symbol_copy(symbol, from, size, offset, kind, true, [&](Operation operation) {
        return replace_operation(find_node(node), std::move(operation));
    });
}
HIP_SLOT(hipGraphExecMemcpyNodeSetParamsToSymbol)(GraphExec* exec, GraphNode* node,
                                                  const void* symbol, const void* from, size_t size,
                                                  size_t offset, int kind) {
    return with_symbol_copy(symbol, from, size, offset, kind, true, [&](Operation operation) {
        return replace_operation(find_exec_node(exec, node), std::move(operation));
    });
}
HIP_SLOT(hipGraphAddMemcpyNodeFromSymbol)(GraphNode** out, Graph* graph, Nodes dependencies,
                                          size_t count, void* to, const void* symbol, size_t size,
                                          size_t offset, int kind) {
    return with_symbol_copy(symbol, to, size, offset, kind, false, [&](Operation operation) {
        return add_node(out, graph, dependencies, count, std::move(operation));
    });
}
HIP_SLOT(hipGraphMemcpyNodeSetParamsFromSymbol)(GraphNode* node, void* to, const void* symbol,
                                                size_t size, size_t offset, int kind) {
    return with_symbol_copy(symbol, to, size, offset, kind, false, [&](Operation operation) {
        return replace_operation(find_node(node), std::move(operation));
    });
}
HIP_SLOT(hipGraphExecMemcpyNodeSetParamsFromSymbol)(GraphExec* exec, GraphNode* node, void* to,
                                                    const void* symbol, size_t size, size_t offset,
                                                    int kind) {
    return with_symbol_copy(symbol, to, size, offset, kind, false, [&](Operation operation) {
        return replace_operation(find_exec_node(exec, node), std::move(operation));
    });
}

HIP_SLOT(hipGraphAddMemsetNode)(GraphNode** out, Graph* graph, Nodes dependencies, size_t count,
                                const Fill* params) {
    return add_made(out, graph, dependencies, count, params);
}
HIP_SLOT(hipGraphMemsetNodeGetParams)(GraphNode* node, Fill* params) {
    return with_kind<FillOperation>(
        node, [&](const FillOperation& fill) { return give(params, fill.fill.rows); });
}
HIP_SLOT(hipGraphMemsetNodeSetParams)(GraphNode* node, const Fill* params) {
    return set_made(node, params);
}
HIP_SLOT(hipGraphExecMemsetNodeSetParams)(GraphExec* exec, GraphNode* node, const Fill* params) {
    return set_exec_made(exec, node, params);
}

HIP_SLOT(hipGraphAddHostNode)(GraphNode** out, Graph* graph, Nodes dependencies, size_t count,
                              const HostNodeParams* params) {
    return add_made(out, graph, dependencies, count, params);
}
HIP_SLOT(hipGraphHostNodeGetParams)(GraphNode* node, HostNodeParams* params) {
    return with_kind<HostOperation>(node, [&](const HostOperation& host) {
        return give(params, HostNodeParams{host.function, host.data});
    });
}
HIP_SLOT(hipGraphHostNodeSetParams)(GraphNode* node, const HostNodeParams* params) {
    return set_made(node, params);
}
HIP_SLOT(hipGraphExecHostNodeSetParams)(GraphExec* exec, GraphNode* node,
                                        const HostNodeParams* params) {
    return set_exec_made(exec, node, params);
}

HIP_SLOT(hipGraphAddChildGraphNode)(GraphNode** out, Graph* graph, Nodes dependencies, size_t count,
                                    Graph* child) {
    return api([&] {
        const GraphLock lock;
        Operation operation;
        const Error error = make_operation(child, operation);
        return error == kSuccess ? add_node(out, graph, dependencies, count, std::move(operation))
                                 : error;
    });
}
HIP_SLOT(hipGraphChildGraphNodeGetGraph)(GraphNode* node, Graph** graph) {
    return with_kind<GraphOperation>(
        node, [&](const GraphOperation& child) { return give(graph, child.graph.get()); });
}

HIP_SLOT(hipGraphAddEventRecordNode)(GraphNode** out, Graph* graph, Nodes dependencies,
                                     size_t count, Event* event) {
    return add_event_node<EventRecordOperation>(out, graph, dependencies, count, event);
}
HIP_SLOT(hipGraphEventRecordNodeGetEvent)(GraphNode* node, Event** event) {
    return with_kind<EventRecordOperation>(
        node, [&](const EventRecordOperation& record) { return give(event, record.event); });
}
HIP_SLOT(hipGraphEventRecordNodeSetEvent)(GraphNode* node, Event* event) {
    return set_event<EventRecordOperation>(find_own, nullptr, node, event);
}
HIP_SLOT(hipGraphExecEventRecordNodeSetEvent)(GraphExec* exec, GraphNode* node, Event* event) {
    return set_event<EventRecordOperation>(find_exec_node, exec, node, event);
}
HIP_SLOT(hipGraphAddEventWaitNode)(GraphNode** out, Graph* graph, Nodes dependencies, size_t count,
                                   Event* event) {
    return add_event_node<EventWaitOperation>(out, graph, dependencies, count, event);
}
HIP_SLOT(hipGraphEventWaitNodeGetEvent)(GraphNode* node, Event** event) {
    return with_kind<EventWaitOperation>(
        node, [&](const EventWaitOperation& wait) { return give(event, wait.event); });
}
HIP_SLOT(hipGraphEventWaitNodeSetEvent)(GraphNode* node, Event* event) {
    return set_event<EventWaitOperation>(find_own, nullptr, node, event);
}
HIP_SLOT(hipGraphExecEventWaitNodeSetEvent)(GraphExec* exec, GraphNode* node, Event* event) {
    return set_event<EventWaitOperation>(find_exec_node, exec, node, event);
}

HIP_SLOT(hipGraphAddMemAllocNode)(GraphNode** out, Graph* graph, Nodes dependencies, size_t count,
                                  AllocationNodeParams* params) {
    return add_made(out, graph, dependencies, count, params);
}
HIP_SLOT(hipGraphMemAllocNodeGetParams)(GraphNode* node, AllocationNodeParams* params) {
    return with_kind<AllocationOperation>(node, [&](const AllocationOperation& allocation) {
        AllocationNodeParams known{};
        known.allocation_type = 1;  // pinned
        known.location = {1, 0};    // device 0
        known.size = allocation.memory->size();
        known.pointer = reinterpret_cast<void*>(allocation.memory->address());
        return give(params, known);
    });
}
HIP_SLOT(hipGraphAddMemFreeNode)(GraphNode** out, Graph* graph, Nodes dependencies, size_t count,
                                 void* pointer) {
    return add_free_node(out, graph, dependencies, count, pointer);
}
HIP_SLOT(hipDrvGraphAddMemFreeNode)(GraphNode** out, Graph* graph, Nodes dependencies, size_t count,
                                    void* pointer) {
    return add_free_node(out, graph, dependencies, count, pointer);
}
HIP_SLOT(hipGraphMemFreeNodeGetParams)(GraphNode* node, void** pointer) {
    return with_kind<FreeOperation>(
        node, [&](const FreeOperation& free) { return give(pointer, free.pointer); });
}

}  // namespace asmevo::emulator::hip
