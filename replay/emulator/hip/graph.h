// Graphs: the operations of captured streams, to be run again in the order in which they came. That
// order respects every dependency, since each operation came after what it depends on.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "hip/types.h"

namespace asmevo::emulator::hip {

/// hipGraphNodeType.
enum class NodeType : int { kKernel = 0, kCopy = 1, kFill = 2, kHost = 3, kGraph = 4, kRecord = 7 };

struct GraphNode {
    NodeType type;
    std::function<Error()> run;
};

/// hipGraph_t, and what a hipGraphExec_t runs. Thread-safe while it is being captured.
class Graph {
  public:
    void add(NodeType type, std::function<Error()> run);
    /// Runs all operations up to the first that fails.
    Error run() const;
    std::vector<std::shared_ptr<const GraphNode>> nodes() const;

  private:
    mutable std::mutex mutex_;
    std::vector<std::shared_ptr<const GraphNode>> nodes_;
};

}  // namespace asmevo::emulator::hip
