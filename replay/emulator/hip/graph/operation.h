// What a stream runs and a graph's node holds: one operation with its parameters by value.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "hip/copy_params.h"
#include "hip/launch.h"

namespace asmevo::emulator::hip {

class Graph;
class GraphAllocation;
struct Event;

/// hipGraphNodeType.
enum class NodeType : int {
    kKernel = 0,
    kCopy = 1,
    kFill = 2,
    kHost = 3,
    kGraph = 4,
    kEmpty = 5,
    kEventWait = 6,
    kEventRecord = 7,
    kAllocation = 10,
    kFree = 11,
    kCopyFromSymbol = 12,
    kCopyToSymbol = 13,
};

struct KernelOperation {
    std::shared_ptr<const PreparedLaunch> launch;
};
struct CopyOperation {
    Copy3D copy;
    NodeType type = NodeType::kCopy;  // or one of the symbol copies
};
struct FillOperation {
    FillBox fill;
};
struct HostOperation {
    void (*function)(void*);
    void* data;
};
struct GraphOperation {
    std::shared_ptr<Graph> graph;
};
struct EmptyOperation {};
struct EventWaitOperation {
    Event* event;
};
struct EventRecordOperation {
    Event* event;
};
struct AllocationOperation {
    std::shared_ptr<GraphAllocation> memory;
};
struct FreeOperation {
    void* pointer;
};

using Operation =
    std::variant<KernelOperation, CopyOperation, FillOperation, HostOperation, GraphOperation,
                 EmptyOperation, EventWaitOperation, EventRecordOperation, AllocationOperation,
                 FreeOperation>;

NodeType type_of(const Operation& operation);

/// Runs it to its end in the calling thread.
Error run(const Operation& operation);
/// Runs them in order, up to the first that fails.
Error run_all(const std::vector<Operation>& operations);

}  // namespace asmevo::emulator::hip
