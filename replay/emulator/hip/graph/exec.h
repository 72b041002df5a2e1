// Executable graphs: hipGraphExec_t.
#pragma once

#include <unordered_map>

#include "hip/graph/graph.h"

namespace asmevo::emulator::hip {

/// A graph as it was when instantiated, with parameters of its own.
struct GraphExec {
    std::shared_ptr<Graph> graph;
    uint64_t flags = 0;
    // By the node that the program knows, in the original graph or one of its child graphs.
    std::unordered_map<const GraphNode*, GraphNode*> nodes;
};

// Under GraphLock:

GraphExec* find_exec(const GraphExec* handle);
/// The node of `exec` for one of the original graph; null if there is none.
GraphNode* find_exec_node(const GraphExec* exec, const GraphNode* original);
/// Adds a node behind `dependencies` to the graph of a handle; checks all that the caller gave.
Error add_node(GraphNode** out, const Graph* handle, GraphNode* const* dependencies, size_t count,
               Operation operation);
/// Gives a node new parameters; kInvalidValue when they are for another type of node.
Error replace_operation(GraphNode* node, Operation operation);

}  // namespace asmevo::emulator::hip
