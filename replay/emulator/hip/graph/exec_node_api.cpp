// What only executable graphs have: child graphs that are replaced, nodes that are switched off. And
// the driver API's forms of copy and fill nodes.
#include "hip/api.h"
#include "hip/device.h"
#include "hip/graph/exec.h"
#include "hip/graph/node_params.h"

namespace asmevo::emulator::hip {

HIP_SLOT(hipGraphAddMemcpyNode)(GraphNode** out, Graph* graph, GraphNode* const* dependencies,
                                size_t count, const Copy3D* params);
HIP_SLOT(hipGraphMemcpyNodeSetParams)(GraphNode* node, const Copy3D* params);
HIP_SLOT(hipGraphMemcpyNodeGetParams)(GraphNode* node, Copy3D* params);
HIP_SLOT(hipGraphExecMemcpyNodeSetParams)(GraphExec* exec, GraphNode* node, const Copy3D* params);
HIP_SLOT(hipGraphAddMemsetNode)(GraphNode** out, Graph* graph, GraphNode* const* dependencies,
                                size_t count, const Fill* params);
HIP_SLOT(hipGraphExecMemsetNodeSetParams)(GraphExec* exec, GraphNode* node, const Fill* params);

namespace {

/// The same nodes with the same edges, whatever the parameters.
bool has_same_shape(const Graph& a, const Graph& b) {
    const auto first = a.sort(), second = b.sort();
    if (first.size() != second.size()) {
        return false;
    }
    for (size_t i = 0; i < first.size(); ++i) {
        if (type_of(first[i]->operation) != type_of(second[i]->operation) ||
            first[i]->dependencies.size() != second[i]->dependencies.size()) {
            return false;
        }
    }
    return true;
}

Error set_child(const GraphExec* exec, const GraphNode* original, const Graph* handle) {
    const GraphLock lock;
    GraphNode* node = find_exec_node(exec, original);
    const Graph* graph = find_graph(handle);
    const auto* child = node ? std::get_if<GraphOperation>(&node->operation) : nullptr;
    if (!child || !graph || !has_same_shape(*child->graph, *graph)) {
        return kInvalidValue;
    }
    // The nodes stay, since the program knows them by those of the original graph.
    const auto copy = graph->clone();
    const auto own = child->graph->sort(), replacement = copy->sort();
    for (size_t i = 0; i < own.size(); ++i) {
        own[i]->operation = replacement[i]->operation;
    }
    return kSuccess;
}

/// Kernels, copies and fills can be switched off.
GraphNode* find_switchable(const GraphExec* exec, const GraphNode* original) {
    GraphNode* node = find_exec_node(exec, original);
    const bool is_switchable = node && (std::holds_alternative<KernelOperation>(node->operation) ||
                                        std::holds_alternative<CopyOperation>(node->operation) ||
                                        std::holds_alternative<FillOperation>(node->operation));
    return is_switchable ? node : nullptr;
}

bool is_context(const Context* context) {
    return !context || context == primary_context();
}

}  // namespace

HIP_SLOT(hipGraphExecChildGraphNodeSetParams)(GraphExec* exec, GraphNode* node, Graph* child) {
    return api([&] { return set_child(exec, node, child); });
}
HIP_SLOT(hipGraphNodeSetEnabled)(GraphExec* exec, GraphNode* node, unsigned is_enabled) {
    return api([&] {
        const GraphLock lock;
        GraphNode* found = find_switchable(exec, node);
        return found ? (found->is_enabled = is_enabled != 0, kSuccess) : kInvalidValue;
    });
}
HIP_SLOT(hipGraphNodeGetEnabled)(GraphExec* exec, GraphNode* node, unsigned* is_enabled) {
    return api([&] {
        const GraphLock lock;
        const GraphNode* found = find_switchable(exec, node);
        return found && is_enabled ? (*is_enabled = found->is_enabled, kSuccess) : kInvalidValue;
    });
}

HIP_SLOT(hipDrvGraphAddMemcpyNode)(GraphNode** out, Graph* graph, GraphNode* const* dependencies,
                                   size_t count, const DriverCopy3D* params, Context* context) {
    if (!params || !is_context(context)) {
        return record(kInvalidValue);
    }
    const Copy3D copy = from_driver_copy(*params);
    return slot_hipGraphAddMemcpyNode(out, graph, dependencies, count, &copy);
}
HIP_SLOT(hipDrvGraphMemcpyNodeGetParams)(GraphNode* node, DriverCopy3D* params) {
    Copy3D copy;
    const Error error =
        params ? slot_hipGraphMemcpyNodeGetParams(node, &copy) : record(kInvalidValue);
    return error == kSuccess ? (*params = to_driver_copy(copy), kSuccess) : error;
}
HIP_SLOT(hipDrvGraphMemcpyNodeSetParams)(GraphNode* node, const DriverCopy3D* params) {
    if (!params) {
        return record(kInvalidValue);
    }
    const Copy3D copy = from_driver_copy(*params);
    return slot_hipGraphMemcpyNodeSetParams(node, &copy);
}
HIP_SLOT(hipDrvGraphExecMemcpyNodeSetParams)(GraphExec* exec, GraphNode* node,
                                             const DriverCopy3D* params, Context* context) {
    if (!params || !is_context(context)) {
        return record(kInvalidValue);
    }
    const Copy3D copy = from_driver_copy(*params);
    return slot_hipGraphExecMemcpyNodeSetParams(exec, node, &copy);
}
HIP_SLOT(hipDrvGraphAddMemsetNode)(GraphNode** out, Graph* graph, GraphNode* const* dependencies,
                                   size_t count, const Fill* params, Context* context) {
    return is_context(context)
               ? slot_hipGraphAddMemsetNode(out, graph, dependencies, count, params)
               : record(kInvalidValue);
}
HIP_SLOT(hipDrvGraphExecMemsetNodeSetParams)(GraphExec* exec, GraphNode* node, const Fill* params,
                                             Context* context) {
    return is_context(context) ? slot_hipGraphExecMemsetNodeSetParams(exec, node, params)
                               : record(kInvalidValue);
}

}  // namespace asmevo::emulator::hip
