// Stream capture's other half: making, instantiating and launching graphs. Graphs come from stream
// capture only; the functions that add nodes by hand are not supported.
#include "hip/graph.h"

#include <algorithm>
#include <map>

#include "hip/api.h"
#include "hip/stream.h"

namespace asmevo::emulator::hip {
namespace {

/// hipGraphExec_t: a graph as it was when instantiated.
struct GraphExec {
    std::shared_ptr<const Graph> graph;
};

struct State {
    std::mutex mutex;
    std::map<const Graph*, std::shared_ptr<Graph>> graphs;
    std::map<const GraphExec*, std::unique_ptr<GraphExec>> execs;
};

State& state() {
    static State& instance = *new State;
    return instance;
}

std::shared_ptr<Graph> find_graph(const Graph* graph) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    const auto found = s.graphs.find(graph);
    return found == s.graphs.end() ? nullptr : found->second;
}

std::shared_ptr<const Graph> find_exec(const GraphExec* exec) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    const auto found = s.execs.find(exec);
    return found == s.execs.end() ? nullptr : found->second->graph;
}

Error keep(std::shared_ptr<Graph> graph, Graph** out) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    *out = graph.get();
    s.graphs[graph.get()] = std::move(graph);
    return kSuccess;
}

Error instantiate(GraphExec** out, const Graph* graph) {
    const auto found = find_graph(graph);
    if (!out || !found) {
        return kInvalidValue;
    }
    // A captured graph does not change any more, so it is shared.
    auto exec = std::make_unique<GraphExec>(GraphExec{found});
    State& s = state();
    std::lock_guard lock(s.mutex);
    *out = exec.get();
    s.execs[*out] = std::move(exec);
    return kSuccess;
}

}  // namespace

void Graph::add(NodeType type, std::function<Error()> run) {
    auto node = std::make_shared<const GraphNode>(GraphNode{type, std::move(run)});
    std::lock_guard lock(mutex_);
    nodes_.push_back(std::move(node));
}

std::vector<std::shared_ptr<const GraphNode>> Graph::nodes() const {
    std::lock_guard lock(mutex_);
    return nodes_;
}

Error Graph::run() const {
    for (const auto& node : nodes()) {
        if (Error error = node->run(); error != kSuccess) {
            return error;
        }
    }
    return kSuccess;
}

HIP_SLOT(hipGraphCreate)(Graph** graph, unsigned flags) {
    return api([&] {
        return graph && flags == 0 ? keep(std::make_shared<Graph>(), graph) : kInvalidValue;
    });
}

HIP_SLOT(hipGraphDestroy)(Graph* graph) {
    return api_always([&] {
        State& s = state();
        std::lock_guard lock(s.mutex);
        return s.graphs.erase(graph) ? kSuccess : kInvalidValue;
    });
}

HIP_SLOT(hipGraphGetNodes)(const Graph* graph, const GraphNode** nodes, size_t* count) {
    return api([&] {
        const auto found = find_graph(graph);
        if (!found || !count) {
            return kInvalidValue;
        }
        const auto all = found->nodes();
        if (nodes) {
            const size_t given = std::min(*count, all.size());
            std::transform(all.begin(), all.begin() + static_cast<ptrdiff_t>(given), nodes,
                           [](const auto& node) { return node.get(); });
            std::fill(nodes + given, nodes + *count, nullptr);
        }
        *count = all.size();
        return kSuccess;
    });
}

HIP_SLOT(hipGraphNodeGetType)(const GraphNode* node, int* type) {
    return api([&] {
        return node && type ? (*type = static_cast<int>(node->type), kSuccess) : kInvalidValue;
    });
}

HIP_SLOT(hipGraphInstantiate)(GraphExec** exec, Graph* graph, void*, char*, size_t) {
    return api([&] { return instantiate(exec, graph); });
}
HIP_SLOT(hipGraphInstantiateWithFlags)(GraphExec** exec, Graph* graph, uint64_t) {
    return api([&] { return instantiate(exec, graph); });
}

HIP_SLOT(hipGraphExecDestroy)(GraphExec* exec) {
    return api_always([&] {
        State& s = state();
        std::lock_guard lock(s.mutex);
        return s.execs.erase(exec) ? kSuccess : kInvalidValue;
    });
}

HIP_SLOT(hipGraphExecUpdate)(GraphExec* exec, Graph* graph, void** error_node, int* result) {
    return api([&] {
        auto found = find_graph(graph);
        if (!found || !find_exec(exec) || !result) {
            return kInvalidValue;
        }
        State& s = state();
        std::lock_guard lock(s.mutex);
        exec->graph = std::move(found);
        *result = 0;
        if (error_node) {
            *error_node = nullptr;
        }
        return kSuccess;
    });
}

HIP_SLOT(hipGraphUpload)(GraphExec* exec, Stream* stream) {
    return api([&] {
        return find_exec(exec) ? is_stream(stream) ? kSuccess : kInvalidHandle : kInvalidValue;
    });
}

HIP_SLOT(hipGraphLaunch)(GraphExec* exec, Stream* stream) {
    return api([&] {
        const auto graph = find_exec(exec);
        return graph ? submit(stream, NodeType::kGraph, [graph] { return graph->run(); })
                     : kInvalidValue;
    });
}
HIP_SLOT(hipGraphLaunch_spt)(GraphExec* exec, Stream* stream) {
    return slot_hipGraphLaunch(exec, stream);
}

HIP_SLOT(hipStreamBeginCapture)(Stream* stream, int mode) {
    return api([&] { return mode < 0 || mode > 2 ? kInvalidValue : begin_capture(stream); });
}
HIP_SLOT(hipStreamBeginCapture_spt)(Stream* stream, int mode) {
    return slot_hipStreamBeginCapture(stream, mode);
}

HIP_SLOT(hipStreamEndCapture)(Stream* stream, Graph** graph) {
    return api([&] {
        std::shared_ptr<Graph> captured;
        const Error error = graph ? end_capture(stream, captured) : kInvalidValue;
        return error == kSuccess ? keep(std::move(captured), graph) : error;
    });
}
HIP_SLOT(hipStreamEndCapture_spt)(Stream* stream, Graph** graph) {
    return slot_hipStreamEndCapture(stream, graph);
}

}  // namespace asmevo::emulator::hip
