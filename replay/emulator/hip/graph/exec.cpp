// Instantiating, updating and launching graphs.
#include "hip/graph/exec.h"

#include <algorithm>
#include <cstdio>

#include "hip/api.h"
#include "hip/graph/allocation_node.h"
#include "hip/stream.h"

namespace asmevo::emulator::hip {
namespace {

/// hipGraphInstantiateFlags.
enum : uint64_t { kAutoFree = 1, kUpload = 2, kDeviceLaunch = 4, kUseNodePriority = 8 };

/// hipGraphInstantiateResult.
enum InstantiateResult : int { kInstantiated = 0, kFailed = 1, kInvalidStructure = 2 };

/// hipGraphInstantiateParams.
struct InstantiateParams {
    GraphNode* error_node;
    uint64_t flags;
    InstantiateResult result;
    Stream* upload_stream;
};
static_assert(sizeof(InstantiateParams) == 32);

/// hipGraphExecUpdateResult.
enum class UpdateResult : int {
    kSuccess = 0,
    kError = 1,
    kTopologyChanged = 2,
    kTypeChanged = 3,
    kFunctionChanged = 4,
    kParametersChanged = 5,
};

std::map<const GraphExec*, std::unique_ptr<GraphExec>>& execs() {
    static auto& instance = *new std::map<const GraphExec*, std::unique_ptr<GraphExec>>;
    return instance;
}

void map_origins(const Graph& graph, GraphExec& exec) {
    for (const NodePointer& node : graph.nodes()) {
        exec.nodes[node->origin.get()] = node.get();
        if (const auto* child = std::get_if<GraphOperation>(&node->operation)) {
            map_origins(*child->graph, exec);
        }
    }
}

/// A node on a cycle, or behind one; null if there is none. Looks into child graphs too.
GraphNode* find_cycle(const Graph& graph) {
    const auto order = graph.sort();
    for (const NodePointer& node : graph.nodes()) {
        if (order.size() < graph.nodes().size() &&
            std::find(order.begin(), order.end(), node.get()) == order.end()) {
            return node.get();
        }
        const auto* child = std::get_if<GraphOperation>(&node->operation);
        if (GraphNode* inner = child ? find_cycle(*child->graph) : nullptr) {
            return inner;
        }
    }
    return nullptr;
}

Error instantiate(GraphExec** out, const Graph* handle, uint64_t flags, GraphNode** error_node) {
    const GraphLock lock;
    const Graph* graph = find_graph(handle);
    if (!out || !graph || flags > (kAutoFree | kUpload | kDeviceLaunch | kUseNodePriority)) {
        return kInvalidValue;
    }
    if (flags & kDeviceLaunch) {
        return kNotSupported;  // AMD devices do not launch graphs
    }
    if (GraphNode* node = find_cycle(*graph)) {
        return *error_node = node, kInvalidValue;
    }
    auto exec = std::make_unique<GraphExec>();
    exec->graph = graph->clone();
    exec->flags = flags;
    map_origins(*exec->graph, *exec);
    *out = exec.get();
    execs()[*out] = std::move(exec);
    return kSuccess;
}

/// Why the nodes of `target` cannot take the parameters of those of `source`; `*at` is the node.
UpdateResult compare(const Graph& target, const Graph& source, GraphNode** at) {
    const auto old_order = target.sort(), new_order = source.sort();
    if (old_order.size() != new_order.size() || source.nodes().size() != new_order.size()) {
        return UpdateResult::kTopologyChanged;
    }
    std::unordered_map<const GraphNode*, size_t> old_place, new_place;
    for (size_t i = 0; i < new_order.size(); ++i) {
        old_place[old_order[i]] = new_place[new_order[i]] = i;
    }
    const auto places = [](const GraphNode& node, auto& place) {
        std::vector<size_t> found;
        for (const GraphNode* dependency : node.dependencies) {
            found.push_back(place[dependency]);
        }
        std::sort(found.begin(), found.end());
        return found;
    };
    for (size_t i = 0; i < new_order.size(); ++i) {
        const GraphNode &old_node = *old_order[i], &new_node = *new_order[i];
        *at = new_order[i];
        if (type_of(old_node.operation) != type_of(new_node.operation)) {
            return UpdateResult::kTypeChanged;
        }
        if (places(old_node, old_place) != places(new_node, new_place)) {
            return UpdateResult::kTopologyChanged;
        }
        const auto* old_copy = std::get_if<CopyOperation>(&old_node.operation);
        if (old_copy &&
            old_copy->copy.kind != std::get<CopyOperation>(new_node.operation).copy.kind) {
            return UpdateResult::kParametersChanged;
        }
        if (const auto* child = std::get_if<GraphOperation>(&old_node.operation)) {
            GraphNode* inner = nullptr;
            const Graph& new_child = *std::get<GraphOperation>(new_node.operation).graph;
            if (const UpdateResult result = compare(*child->graph, new_child, &inner);
                result != UpdateResult::kSuccess) {
                return result;
            }
        }
    }
    *at = nullptr;
    return UpdateResult::kSuccess;
}

void take_over(const Graph& target, const Graph& source) {
    const auto old_order = target.sort(), new_order = source.sort();
    for (size_t i = 0; i < new_order.size(); ++i) {
        if (const auto* child = std::get_if<GraphOperation>(&old_order[i]->operation)) {
            take_over(*child->graph, *std::get<GraphOperation>(new_order[i]->operation).graph);
        } else {
            old_order[i]->operation = new_order[i]->operation;
            old_order[i]->attributes = new_order[i]->attributes;
        }
    }
}

Error update(GraphExec* exec, const Graph* handle, GraphNode** error_node, UpdateResult* result) {
    const GraphLock lock;
    const GraphExec* target = find_exec(exec);
    const Graph* graph = find_graph(handle);
    if (!target || !graph || !error_node || !result) {
        return kInvalidValue;
    }
    *error_node = nullptr;
    *result = compare(*target->graph, *graph, error_node);
    if (*result != UpdateResult::kSuccess) {
        return kGraphExecUpdateFailure;
    }
    take_over(*target->graph, *graph);
    return kSuccess;
}

Error launch(const GraphExec* handle, const Stream* stream) {
    std::vector<Operation> operations;
    {
        const GraphLock lock;
        const GraphExec* exec = find_exec(handle);
        if (!exec || !is_stream(stream)) {
            return exec ? kInvalidHandle : kInvalidValue;
        }
        operations = flatten(*exec->graph);
        if (exec->flags & kAutoFree) {
            for (const Operation& operation : operations) {
                if (const auto* memory = std::get_if<AllocationOperation>(&operation)) {
                    memory->memory->deactivate();
                }
            }
        }
    }
    return run_all(operations);
}

/// A graph that is launched into a captured stream becomes a child node.
Error launch_or_capture(const GraphExec* handle, const Stream* stream) {
    if (!capture_of(stream)) {
        return launch(handle, stream);
    }
    std::shared_ptr<Graph> graph;
    {
        const GraphLock lock;
        const GraphExec* exec = find_exec(handle);
        if (!exec) {
            return kInvalidValue;
        }
        graph = exec->graph->clone();
    }
    return submit(stream, GraphOperation{std::move(graph)});
}

}  // namespace

GraphExec* find_exec(const GraphExec* handle) {
    return execs().count(handle) ? const_cast<GraphExec*>(handle) : nullptr;
}

GraphNode* find_exec_node(const GraphExec* exec, const GraphNode* original) {
    if (!find_exec(exec) || !find_node(original)) {
        return nullptr;
    }
    const auto found = exec->nodes.find(original);
    return found == exec->nodes.end() ? nullptr : found->second;
}

Error replace_operation(GraphNode* node, Operation operation) {
    if (!node || type_of(node->operation) != type_of(operation)) {
        return kInvalidValue;
    }
    node->operation = std::move(operation);
    return kSuccess;
}

HIP_SLOT(hipGraphInstantiate)(GraphExec** exec, Graph* graph, GraphNode** error_node, char* log,
                              size_t log_size) {
    return api([&] {
        GraphNode* wrong = nullptr;
        const Error error = instantiate(exec, graph, 0, &wrong);
        if (error_node) {
            *error_node = wrong;
        }
        if (log && log_size != 0) {
            std::snprintf(log, log_size, "%s", wrong ? "the graph has a cycle" : "");
        }
        return error;
    });
}
HIP_SLOT(hipGraphInstantiateWithFlags)(GraphExec** exec, Graph* graph, uint64_t flags) {
    return api([&] {
        GraphNode* wrong = nullptr;
        return instantiate(exec, graph, flags, &wrong);
    });
}
HIP_SLOT(hipGraphInstantiateWithParams)(GraphExec** exec, Graph* graph, InstantiateParams* params) {
    return api([&] {
        if (!params) {
            return kInvalidValue;
        }
        params->error_node = nullptr;
        const Error error = instantiate(exec, graph, params->flags, &params->error_node);
        params->result = error == kSuccess    ? kInstantiated
                         : params->error_node ? kInvalidStructure
                                              : kFailed;
        return error;
    });
}
HIP_SLOT(hipGraphExecDestroy)(GraphExec* exec) {
    return api_always([&] {
        const GraphLock lock;
        return execs().erase(exec) ? kSuccess : kInvalidValue;
    });
}
HIP_SLOT(hipGraphExecGetFlags)(GraphExec* exec, uint64_t* flags) {
    return api([&] {
        const GraphLock lock;
        return flags && find_exec(exec) ? (*flags = exec->flags, kSuccess) : kInvalidValue;
    });
}
HIP_SLOT(hipGraphExecUpdate)(GraphExec* exec, Graph* graph, GraphNode** error_node,
                             UpdateResult* result) {
    return api([&] { return update(exec, graph, error_node, result); });
}
HIP_SLOT(hipGraphUpload)(GraphExec* exec, Stream* stream) {
    return api([&] {
        const GraphLock lock;
        return !find_exec(exec) ? kInvalidValue : is_stream(stream) ? kSuccess : kInvalidHandle;
    });
}
HIP_SLOT(hipGraphLaunch)(GraphExec* exec, Stream* stream) {
    return api([&] { return launch_or_capture(exec, stream); });
}
HIP_SLOT(hipGraphLaunch_spt)(GraphExec* exec, Stream* stream) {
    return slot_hipGraphLaunch(exec, stream);
}

}  // namespace asmevo::emulator::hip
