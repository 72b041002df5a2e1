// Kernel nodes and their attributes.
#include <cstring>

#include "hip/api.h"
#include "hip/graph/exec.h"
#include "hip/graph/node_params.h"

namespace asmevo::emulator::hip {
namespace {

/// hipLaunchAttributeID of those that kernel nodes have: access policy window, cooperative,
/// priority, memory domains. Only the cooperative one changes what a launch does here.
bool is_kernel_attribute(int id) {
    return id == 1 || id == kLaunchAttributeCooperative || id == 8 || id == 9 || id == 10;
}

GraphNode* find_kernel_node(const GraphNode* handle) {
    GraphNode* node = find_node(handle);
    return node && std::holds_alternative<KernelOperation>(node->operation) ? node : nullptr;
}

Error make(const KernelNodeParams* params, Operation& operation) {
    return params ? make_operation(*params, operation) : kInvalidValue;
}

void set_cooperative(GraphNode& node, bool is_cooperative) {
    auto& kernel = std::get<KernelOperation>(node.operation);
    auto changed = std::make_shared<PreparedLaunch>(*kernel.launch);
    changed->is_cooperative = is_cooperative;
    kernel.launch = std::move(changed);
}

NodeAttribute attribute_of(const GraphNode& node, int id) {
    NodeAttribute value{};
    if (id == kLaunchAttributeCooperative) {
        const int flag = std::get<KernelOperation>(node.operation).launch->is_cooperative;
        std::memcpy(value.data(), &flag, sizeof flag);
        return value;
    }
    const auto found = node.attributes.find(id);
    return found == node.attributes.end() ? value : found->second;
}

void set_attribute(GraphNode& node, int id, const NodeAttribute& value) {
    node.attributes[id] = value;
    if (id == kLaunchAttributeCooperative) {
        int flag;
        std::memcpy(&flag, value.data(), sizeof flag);
        set_cooperative(node, flag != 0);
    }
}

/// What the program was last told: its argument pointers stay valid until it asks again or the
/// node's parameters change.
thread_local std::vector<void*> t_argument_pointers;

}  // namespace

HIP_SLOT(hipGraphAddKernelNode)(GraphNode** out, Graph* handle, GraphNode* const* dependencies,
                                size_t count, const KernelNodeParams* params) {
    return api([&] {
        const GraphLock lock;
        Operation operation;
        if (const Error error = make(params, operation); error != kSuccess) {
            return error;
        }
        return add_node(out, handle, dependencies, count, std::move(operation));
    });
}
HIP_SLOT(hipGraphKernelNodeGetParams)(GraphNode* handle, KernelNodeParams* params) {
    return api([&] {
        const GraphLock lock;
        const GraphNode* node = find_kernel_node(handle);
        if (!node || !params) {
            return kInvalidValue;
        }
        *params = kernel_params(std::get<KernelOperation>(node->operation), t_argument_pointers);
        return kSuccess;
    });
}
HIP_SLOT(hipGraphKernelNodeSetParams)(GraphNode* handle, const KernelNodeParams* params) {
    return api([&] {
        const GraphLock lock;
        Operation operation;
        const Error error = make(params, operation);
        return error == kSuccess ? replace_operation(find_node(handle), std::move(operation))
                                 : error;
    });
}
HIP_SLOT(hipGraphExecKernelNodeSetParams)(GraphExec* exec, GraphNode* handle,
                                          const KernelNodeParams* params) {
    return api([&] {
        const GraphLock lock;
        Operation operation;
        const Error error = make(params, operation);
        return error == kSuccess
                   ? replace_operation(find_exec_node(exec, handle), std::move(operation))
                   : error;
    });
}
HIP_SLOT(hipGraphKernelNodeSetAttribute)(GraphNode* handle, int id, const NodeAttribute* value) {
    return api([&] {
        const GraphLock lock;
        GraphNode* node = find_kernel_node(handle);
        if (!node || !value || !is_kernel_attribute(id)) {
            return kInvalidValue;
        }
        set_attribute(*node, id, *value);
        return kSuccess;
    });
}
HIP_SLOT(hipGraphKernelNodeGetAttribute)(GraphNode* handle, int id, NodeAttribute* value) {
    return api([&] {
        const GraphLock lock;
        const GraphNode* node = find_kernel_node(handle);
        if (!node || !value || !is_kernel_attribute(id)) {
            return kInvalidValue;
        }
        *value = attribute_of(*node, id);
        return kSuccess;
    });
}
HIP_SLOT(hipGraphKernelNodeCopyAttributes)(GraphNode* from, GraphNode* to) {
    return api([&] {
        const GraphLock lock;
        const GraphNode* source = find_kernel_node(from);
        GraphNode* target = find_kernel_node(to);
        if (!source || !target) {
            return kInvalidValue;
        }
        target->attributes = source->attributes;
        set_cooperative(*target, std::get<KernelOperation>(source->operation).launch->is_cooperative);
        return kSuccess;
    });
}

}  // namespace asmevo::emulator::hip
