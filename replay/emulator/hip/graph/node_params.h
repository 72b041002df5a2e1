// Parameters of graph nodes as the API passes them, and operations made of them.
#pragma once

#include "hip/graph/graph.h"

namespace asmevo::emulator::hip {

/// hipKernelNodeParams.
struct KernelNodeParams {
    Dim block;
    void** extra;
    const void* function;
    Dim grid;
    void** params;
    unsigned dynamic_lds;
};
static_assert(sizeof(KernelNodeParams) == 64);

/// hipHostNodeParams.
struct HostNodeParams {
    void (*function)(void*);
    void* data;
};

/// hipMemAllocNodeParams, with hipMemPoolProps.
struct AllocationNodeParams {
    int allocation_type, handle_types;
    MemLocation location;
    void* security_attributes;
    size_t max_size;
    uint8_t reserved[56];
    const MemAccess* access;
    size_t access_count;
    size_t size;
    void* pointer;
};
static_assert(sizeof(AllocationNodeParams) == 120);

/// hipGraphNodeParams.
struct NodeParams {
    NodeType type;
    int reserved0[3];
    union {
        long long reserved1[29];
        KernelNodeParams kernel;
        struct {
            int flags, reserved[3];
            Copy3D params;
        } copy;
        Fill fill;
        HostNodeParams host;
        Graph* graph;
        Event* event;
        AllocationNodeParams allocation;
        void* pointer;
    };
    long long reserved2;
};
static_assert(sizeof(NodeParams) == 256);

// Each checks the parameters of one kind of node and gives its operation, which holds all it needs.
Error make_operation(const KernelNodeParams& params, Operation& out);
Error make_operation(const Copy3D& params, Operation& out);
Error make_operation(const Fill& params, Operation& out);
Error make_operation(const HostNodeParams& params, Operation& out);
Error make_operation(const Graph* child, Operation& out);
/// Also tells the address, in `params`.
Error make_operation(AllocationNodeParams& params, Operation& out);
Error make_operation(NodeParams& params, Operation& out);
/// A copy from or to `offset` bytes inside a variable.
Error make_symbol_copy(const void* symbol, void* host, size_t size, size_t offset, int kind,
                       bool to_symbol, Operation& out);

/// What the program gets back. `pointers` is where the argument pointers of a kernel are kept.
KernelNodeParams kernel_params(const KernelOperation& operation, std::vector<void*>& pointers);

}  // namespace asmevo::emulator::hip
