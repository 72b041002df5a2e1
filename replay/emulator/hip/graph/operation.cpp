#include "hip/graph/operation.h"

#include "hip/allocation.h"
#include "hip/graph/allocation_node.h"
#include "hip/graph/graph.h"
#include "hip/stream.h"

namespace asmevo::emulator::hip {
namespace {

struct Type {
    NodeType operator()(const KernelOperation&) const { return NodeType::kKernel; }
    NodeType operator()(const CopyOperation& copy) const { return copy.type; }
    NodeType operator()(const FillOperation&) const { return NodeType::kFill; }
    NodeType operator()(const HostOperation&) const { return NodeType::kHost; }
    NodeType operator()(const GraphOperation&) const { return NodeType::kGraph; }
    NodeType operator()(const EmptyOperation&) const { return NodeType::kEmpty; }
    NodeType operator()(const EventWaitOperation&) const { return NodeType::kEventWait; }
    NodeType operator()(const EventRecordOperation&) const { return NodeType::kEventRecord; }
    NodeType operator()(const AllocationOperation&) const { return NodeType::kAllocation; }
    NodeType operator()(const FreeOperation&) const { return NodeType::kFree; }
};

struct Runner {
    Error operator()(const KernelOperation& kernel) const { return run_kernel(*kernel.launch); }
    Error operator()(const CopyOperation& copy) const { return run_copy(copy.copy); }
    Error operator()(const FillOperation& fill) const { return run_fill(fill.fill); }
    Error operator()(const HostOperation& host) const {
        host.function(host.data);
        return kSuccess;
    }
    Error operator()(const GraphOperation& child) const {
        std::vector<Operation> operations;
        {
            const GraphLock lock;
            operations = flatten(*child.graph);
        }
        return run_all(operations);
    }
    Error operator()(const EmptyOperation&) const { return kSuccess; }
    // Every record has been reached when a later operation runs.
    Error operator()(const EventWaitOperation&) const { return kSuccess; }
    Error operator()(const EventRecordOperation& record) const {
        note_event(record.event);
        return kSuccess;
    }
    Error operator()(const AllocationOperation& allocation) const {
        return allocation.memory->activate() ? kSuccess : kInvalidValue;
    }
    Error operator()(const FreeOperation& free) const { return free_memory(free.pointer); }
};

}  // namespace

NodeType type_of(const Operation& operation) {
    return std::visit(Type{}, operation);
}

Error run(const Operation& operation) {
    return std::visit(Runner{}, operation);
}

Error run_all(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) {
        if (const Error error = run(operation); error != kSuccess) {
            return error;
        }
    }
    return kSuccess;
}

}  // namespace asmevo::emulator::hip
