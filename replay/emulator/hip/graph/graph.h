// Graphs of operations: built node by node, or by the capture of streams.
//
// One lock guards the structure of all graphs; whoever touches a node holds it (GraphLock). It is
// not held while operations run.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "hip/graph/operation.h"

namespace asmevo::emulator::hip {

class GraphLock {
  public:
    GraphLock();

  private:
    std::lock_guard<std::recursive_mutex> lock_;
};

/// hipLaunchAttributeValue.
using NodeAttribute = std::array<char, 64>;

/// hipGraphNode_t.
struct GraphNode {
    Operation operation;
    Graph* graph = nullptr;  // null once it was removed
    std::vector<GraphNode*> dependencies, dependents;
    std::map<int, NodeAttribute> attributes;  // of kernel nodes, by hipLaunchAttributeID
    std::shared_ptr<const GraphNode> origin;  // the node that this one was cloned from
    bool is_enabled = true;                   // in an executable graph
};

using NodePointer = std::shared_ptr<GraphNode>;

/// hipUserObject_t: a program's resource, destroyed with the last reference to it.
struct UserObject {
    void* pointer;
    void (*destroy)(void*);
    uint64_t references;
};

/// hipGraph_t.
class Graph {
  public:
    Graph();
    ~Graph();
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    /// In the order in which they were added.
    const std::vector<NodePointer>& nodes() const { return nodes_; }
    /// Adds a node behind `dependencies`, nodes of this graph, each once.
    NodePointer add(Operation operation, std::span<GraphNode* const> dependencies);
    void remove(const GraphNode* node);
    /// The nodes so that each comes behind its dependencies, otherwise in the order of addition;
    /// fewer than all when there is a cycle.
    std::vector<GraphNode*> sort() const;
    /// A copy with its own nodes and, deep, its own child graphs.
    std::shared_ptr<Graph> clone() const;

    std::map<UserObject*, unsigned>& user_objects() { return user_objects_; }

  private:
    std::vector<NodePointer> nodes_;
    std::map<UserObject*, unsigned> user_objects_;  // with the references that the graph holds
};

void connect(GraphNode& from, GraphNode& to);
void disconnect(GraphNode& from, GraphNode& to);
bool is_connected(const GraphNode& from, const GraphNode& to);

/// Gives the graph to the program, under its address as handle.
Graph* keep_graph(std::shared_ptr<Graph> graph);
/// The program's own graph behind a handle; null if there is none.
std::shared_ptr<Graph> share_graph(const Graph* handle);
/// Any live graph: the program's, one in a child node, one being captured.
Graph* find_graph(const Graph* handle);
GraphNode* find_node(const GraphNode* handle);
/// Whether it is the program's own, which it may destroy; forgets it then.
bool forget_graph(const Graph* handle);

/// The operations in the order of execution, those of child graphs in place. Empty when there is a
/// cycle.
std::vector<Operation> flatten(const Graph& graph);

/// Gives `count` references of a user object back; the last one destroys it.
void release_user_object(UserObject* object, uint64_t count);

}  // namespace asmevo::emulator::hip
