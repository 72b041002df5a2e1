#include "hip/graph/graph.h"

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>

namespace asmevo::emulator::hip {
namespace {

struct State {
    std::recursive_mutex mutex;
    std::map<const Graph*, std::shared_ptr<Graph>> kept;
    std::set<const Graph*> graphs;
    std::set<const GraphNode*> nodes;
};

State& state() {
    static State& instance = *new State;
    return instance;
}

Operation clone_operation(const Operation& operation) {
    if (const auto* child = std::get_if<GraphOperation>(&operation)) {
        return GraphOperation{child->graph->clone()};
    }
    return operation;
}

void append(const Graph& graph, std::vector<Operation>& out) {
    for (const GraphNode* node : graph.sort()) {
        if (!node->is_enabled) {
            continue;
        }
        if (const auto* child = std::get_if<GraphOperation>(&node->operation)) {
            append(*child->graph, out);
        } else {
            out.push_back(node->operation);
        }
    }
}

}  // namespace

GraphLock::GraphLock() : lock_(state().mutex) {}

Graph::Graph() {
    const GraphLock lock;
    state().graphs.insert(this);
}

Graph::~Graph() {
    const GraphLock lock;
    state().graphs.erase(this);
    for (const NodePointer& node : nodes_) {
        node->graph = nullptr;
        node->operation = EmptyOperation{};
        state().nodes.erase(node.get());
    }
    for (const auto& [object, count] : user_objects_) {
        release_user_object(object, count);
    }
}

NodePointer Graph::add(Operation operation, std::span<GraphNode* const> dependencies) {
    auto node = std::make_shared<GraphNode>();
    node->operation = std::move(operation);
    node->graph = this;
    nodes_.push_back(node);
    state().nodes.insert(node.get());
    for (GraphNode* dependency : dependencies) {
        connect(*dependency, *node);
    }
    return node;
}

void Graph::remove(const GraphNode* node) {
    const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                    [&](const NodePointer& own) { return own.get() == node; });
    if (found == nodes_.end()) {
        return;
    }
    GraphNode& gone = **found;
    for (GraphNode* dependency : std::vector(gone.dependencies)) {
        disconnect(*dependency, gone);
    }
    for (GraphNode* dependent : std::vector(gone.dependents)) {
        disconnect(gone, *dependent);
    }
    gone.graph = nullptr;
    gone.operation = EmptyOperation{};
    state().nodes.erase(&gone);
    nodes_.erase(found);
}

std::vector<GraphNode*> Graph::sort() const {
    std::unordered_map<const GraphNode*, size_t> place, missing;
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    for (size_t i = 0; i < nodes_.size(); ++i) {
        place[nodes_[i].get()] = i;
        missing[nodes_[i].get()] = nodes_[i]->dependencies.size();
        if (nodes_[i]->dependencies.empty()) {
            ready.push(i);
        }
    }
    std::vector<GraphNode*> order;
    while (!ready.empty()) {
        GraphNode* node = nodes_[ready.top()].get();
        ready.pop();
        order.push_back(node);
        for (const GraphNode* dependent : node->dependents) {
            if (--missing[dependent] == 0) {
                ready.push(place[dependent]);
            }
        }
    }
    return order;
}

std::shared_ptr<Graph> Graph::clone() const {
    auto copy = std::make_shared<Graph>();
    std::unordered_map<const GraphNode*, GraphNode*> copies;
    for (const NodePointer& node : nodes_) {
        const NodePointer cloned = copy->add(clone_operation(node->operation), {});
        cloned->attributes = node->attributes;
        cloned->is_enabled = node->is_enabled;
        cloned->origin = node;
        copies[node.get()] = cloned.get();
    }
    for (const NodePointer& node : nodes_) {
        for (const GraphNode* dependency : node->dependencies) {
            connect(*copies[dependency], *copies[node.get()]);
        }
    }
    for (const auto& [object, count] : user_objects_) {
        object->references += count;
        copy->user_objects_[object] = count;
    }
    return copy;
}

bool is_connected(const GraphNode& from, const GraphNode& to) {
    return std::find(to.dependencies.begin(), to.dependencies.end(), &from) !=
           to.dependencies.end();
}

void connect(GraphNode& from, GraphNode& to) {
    from.dependents.push_back(&to);
    to.dependencies.push_back(&from);
}

void disconnect(GraphNode& from, GraphNode& to) {
    std::erase(from.dependents, &to);
    std::erase(to.dependencies, &from);
}

Graph* keep_graph(std::shared_ptr<Graph> graph) {
    const GraphLock lock;
    Graph* handle = graph.get();
    state().kept[handle] = std::move(graph);
    return handle;
}

std::shared_ptr<Graph> share_graph(const Graph* handle) {
    const auto found = state().kept.find(handle);
    return found == state().kept.end() ? nullptr : found->second;
}

Graph* find_graph(const Graph* handle) {
    return state().graphs.count(handle) ? const_cast<Graph*>(handle) : nullptr;
}

GraphNode* find_node(const GraphNode* handle) {
    return state().nodes.count(handle) ? const_cast<GraphNode*>(handle) : nullptr;
}

bool forget_graph(const Graph* handle) {
    return state().kept.erase(handle) != 0;
}

std::vector<Operation> flatten(const Graph& graph) {
    std::vector<Operation> operations;
    append(graph, operations);
    return operations;
}

}  // namespace asmevo::emulator::hip
