// Graphs as DOT text: hipGraphDebugDotPrint.
#include <cstdio>
#include <memory>
#include <string>
#include <unordered_map>

#include "hip/api.h"
#include "hip/graph/graph.h"

namespace asmevo::emulator::hip {
namespace {

const char* type_name(NodeType type) {
    switch (type) {
        case NodeType::kKernel:
            return "kernel";
        case NodeType::kCopy:
            return "memcpy";
        case NodeType::kFill:
            return "memset";
        case NodeType::kHost:
            return "host";
        case NodeType::kGraph:
            return "graph";
        case NodeType::kEmpty:
            return "empty";
        case NodeType::kEventWait:
            return "event wait";
        case NodeType::kEventRecord:
            return "event record";
        case NodeType::kAllocation:
            return "mem alloc";
        case NodeType::kFree:
            return "mem free";
        case NodeType::kCopyFromSymbol:
            return "memcpy from symbol";
        case NodeType::kCopyToSymbol:
            return "memcpy to symbol";
    }
    return "unknown";
}

std::string size_text(const Dim3& size) {
    return std::to_string(size.x) + "," + std::to_string(size.y) + "," + std::to_string(size.z);
}

/// What tells nodes of one type apart; quotes and backslashes do not occur in kernel names.
std::string detail(const Operation& operation) {
    if (const auto* kernel = std::get_if<KernelOperation>(&operation)) {
        const PreparedLaunch& launch = *kernel->launch;
        return "\\n" + launch.function->metadata.name + "\\ngrid " + size_text(launch.shape.grid) +
               " block " + size_text(launch.shape.block);
    }
    if (const auto* copy = std::get_if<CopyOperation>(&operation)) {
        const Extent& extent = copy->copy.extent;
        return "\\n" + std::to_string(extent.width) + " x " + std::to_string(extent.height) +
               " x " + std::to_string(extent.depth) + " bytes";
    }
    if (const auto* fill = std::get_if<FillOperation>(&operation)) {
        const Fill& rows = fill->fill.rows;
        return "\\n" + std::to_string(rows.width) + " x " + std::to_string(rows.height) + " of " +
               std::to_string(rows.element_size) + " bytes";
    }
    return {};
}

/// `prefix` keeps the names of child graphs' nodes apart.
void write_nodes(FILE* file, const Graph& graph, const std::string& prefix) {
    std::unordered_map<const GraphNode*, std::string> names;
    for (const NodePointer& node : graph.nodes()) {
        const std::string name = prefix + std::to_string(names.size());
        names[node.get()] = name;
        std::fprintf(file, "  %s [label=\"%s: %s%s\"];\n", name.c_str(), name.c_str(),
                     type_name(type_of(node->operation)), detail(node->operation).c_str());
        if (const auto* child = std::get_if<GraphOperation>(&node->operation)) {
            std::fprintf(file, "  subgraph cluster_%s {\n", name.c_str());
            write_nodes(file, *child->graph, name + "_");
            std::fprintf(file, "  }\n");
        }
    }
    for (const NodePointer& node : graph.nodes()) {
        for (const GraphNode* dependent : node->dependents) {
            std::fprintf(file, "  %s -> %s;\n", names[node.get()].c_str(),
                         names[dependent].c_str());
        }
    }
}

Error write_dot(const Graph* handle, const char* path) {
    const GraphLock lock;
    const Graph* graph = find_graph(handle);
    if (!graph || !path) {
        return kInvalidValue;
    }
    const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "we"), &std::fclose);
    if (!file) {
        return kOperatingSystem;
    }
    std::fprintf(file.get(), "digraph hip_graph {\n  node [shape=box];\n");
    write_nodes(file.get(), *graph, "n");
    std::fprintf(file.get(), "}\n");
    return std::ferror(file.get()) ? kOperatingSystem : kSuccess;
}

}  // namespace

/// The flags ask for more detail; the text is the same for all.
HIP_SLOT(hipGraphDebugDotPrint)(Graph* graph, const char* path, unsigned) {
    return api([&] { return write_dot(graph, path); });
}

}  // namespace asmevo::emulator::hip
