// Graphs as a whole: creation, structure, edges, user objects.
#include "hip/api.h"
#include "hip/graph/graph.h"

namespace asmevo::emulator::hip {
namespace {

/// Fills the caller's array, of `*count` elements, and tells how many there are. Elements beyond
/// are null.
Error give_nodes(const std::vector<GraphNode*>& nodes, GraphNode** out, size_t* count) {
    if (!count) {
        return kInvalidValue;
    }
    for (size_t i = 0; out && i < *count; ++i) {
        out[i] = i < nodes.size() ? nodes[i] : nullptr;
    }
    *count = nodes.size();
    return kSuccess;
}

template <typename Use>
Error with_graph(const Graph* handle, Use&& use) {
    return api([&] {
        const GraphLock lock;
        Graph* graph = find_graph(handle);
        return graph ? use(*graph) : kInvalidValue;
    });
}

template <typename Use>
Error with_node(const GraphNode* handle, Use&& use) {
    return api([&] {
        const GraphLock lock;
        GraphNode* node = find_node(handle);
        return node ? use(*node) : kInvalidValue;
    });
}

struct Edge {
    GraphNode *from, *to;
};

std::vector<Edge> edges_of(const Graph& graph) {
    std::vector<Edge> edges;
    for (const NodePointer& node : graph.nodes()) {
        for (GraphNode* dependent : node->dependents) {
            edges.push_back({node.get(), dependent});
        }
    }
    return edges;
}

Error get_edges(const Graph& graph, GraphNode** from, GraphNode** to, size_t* count) {
    if (!count || (from == nullptr) != (to == nullptr)) {
        return kInvalidValue;
    }
    std::vector<GraphNode*> starts, ends;
    for (const Edge& edge : edges_of(graph)) {
        starts.push_back(edge.from);
        ends.push_back(edge.to);
    }
    size_t room = *count;
    give_nodes(starts, from, &room);
    return give_nodes(ends, to, count);
}

/// Adds or removes all the edges, or none when one of them is wrong.
Error change_edges(const Graph& graph, GraphNode* const* from, GraphNode* const* to, size_t count,
                   bool is_added) {
    if (count != 0 && (!from || !to)) {
        return kInvalidValue;
    }
    size_t done = 0;
    for (; done < count; ++done) {
        GraphNode *start = find_node(from[done]), *end = find_node(to[done]);
        if (!start || !end || start == end || start->graph != &graph || end->graph != &graph ||
            is_connected(*start, *end) == is_added) {
            break;
        }
        is_added ? connect(*start, *end) : disconnect(*start, *end);
    }
    if (done == count) {
        return kSuccess;
    }
    while (done-- > 0) {
        is_added ? disconnect(*from[done], *to[done]) : connect(*from[done], *to[done]);
    }
    return kInvalidValue;
}

Error find_in_clone(GraphNode** out, const GraphNode& original, const Graph& clone) {
    for (const NodePointer& node : clone.nodes()) {
        if (node->origin.get() == &original) {
            return *out = node.get(), kSuccess;
        }
    }
    return kInvalidValue;
}

}  // namespace

HIP_SLOT(hipGraphCreate)(Graph** graph, unsigned flags) {
    return api([&] {
        return graph && flags == 0 ? (*graph = keep_graph(std::make_shared<Graph>()), kSuccess)
                                   : kInvalidValue;
    });
}

HIP_SLOT(hipGraphDestroy)(Graph* graph) {
    return api_always([&] {
        const GraphLock lock;
        return !graph ? kInvalidValue : forget_graph(graph) ? kSuccess : kIllegalState;
    });
}

HIP_SLOT(hipGraphClone)(Graph** out, Graph* graph) {
    return with_graph(graph, [&](const Graph& original) {
        return out ? (*out = keep_graph(original.clone()), kSuccess) : kInvalidValue;
    });
}

HIP_SLOT(hipGraphNodeFindInClone)(GraphNode** out, GraphNode* original, Graph* clone) {
    return with_node(original, [&](const GraphNode& node) {
        const Graph* graph = find_graph(clone);
        return out && graph ? find_in_clone(out, node, *graph) : kInvalidValue;
    });
}

HIP_SLOT(hipGraphGetNodes)(Graph* graph, GraphNode** nodes, size_t* count) {
    return with_graph(graph, [&](const Graph& g) {
        std::vector<GraphNode*> all;
        for (const NodePointer& node : g.nodes()) {
            all.push_back(node.get());
        }
        return give_nodes(all, nodes, count);
    });
}

HIP_SLOT(hipGraphGetRootNodes)(Graph* graph, GraphNode** nodes, size_t* count) {
    return with_graph(graph, [&](const Graph& g) {
        std::vector<GraphNode*> roots;
        for (const NodePointer& node : g.nodes()) {
            if (node->dependencies.empty()) {
                roots.push_back(node.get());
            }
        }
        return give_nodes(roots, nodes, count);
    });
}

HIP_SLOT(hipGraphGetEdges)(Graph* graph, GraphNode** from, GraphNode** to, size_t* count) {
    return with_graph(graph, [&](const Graph& g) { return get_edges(g, from, to, count); });
}

HIP_SLOT(hipGraphAddDependencies)(Graph* graph, GraphNode* const* from, GraphNode* const* to,
                                  size_t count) {
    return with_graph(graph,
                      [&](const Graph& g) { return change_edges(g, from, to, count, true); });
}

HIP_SLOT(hipGraphRemoveDependencies)(Graph* graph, GraphNode* const* from, GraphNode* const* to,
                                     size_t count) {
    return with_graph(graph,
                      [&](const Graph& g) { return change_edges(g, from, to, count, false); });
}

HIP_SLOT(hipGraphNodeGetDependencies)(GraphNode* node, GraphNode** out, size_t* count) {
    return with_node(
        node, [&](const GraphNode& n) { return give_nodes(n.dependencies, out, count); });
}

HIP_SLOT(hipGraphNodeGetDependentNodes)(GraphNode* node, GraphNode** out, size_t* count) {
    return with_node(node,
                     [&](const GraphNode& n) { return give_nodes(n.dependents, out, count); });
}

HIP_SLOT(hipGraphNodeGetType)(GraphNode* node, NodeType* type) {
    return with_node(node, [&](const GraphNode& n) {
        return type ? (*type = type_of(n.operation), kSuccess) : kInvalidValue;
    });
}

HIP_SLOT(hipGraphDestroyNode)(GraphNode* node) {
    return with_node(node, [&](const GraphNode& n) {
        n.graph->remove(&n);
        return kSuccess;
    });
}

}  // namespace asmevo::emulator::hip
