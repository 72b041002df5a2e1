// Stream capture: operations become nodes of a graph. Each depends on the stream's tail and is the
// new tail; events carry a tail from one stream to another.
#include <algorithm>

#include "hip/api.h"
#include "hip/per_thread_stream.h"
#include "hip/stream.h"

namespace asmevo::emulator::hip {
namespace {

/// hipStreamCaptureMode.
enum : int { kModeGlobal = 0, kModeThreadLocal = 1, kModeRelaxed = 2 };
/// hipStreamCaptureStatus.
enum : int { kStatusNone = 0, kStatusActive = 1, kStatusInvalidated = 2 };
/// hipStreamUpdateCaptureDependenciesFlags.
enum : unsigned { kAddDependencies = 0, kSetDependencies = 1 };

thread_local int t_mode = kModeGlobal;

constexpr uintptr_t kPerThreadHandle = 2;
// What ROCm gives for a stream that is none, or was destroyed.
constexpr Error kContextIsDestroyed = static_cast<Error>(709);

/// A thread's own stream: known like any other while the thread lives.
class ThreadStream {
  public:
    ThreadStream() {
        StreamState& s = stream_state();
        std::lock_guard lock(s.mutex);
        auto stream = std::make_unique<Stream>();
        stream->id = s.next_stream_id++;
        handle_ = stream.get();
        s.streams[handle_] = std::move(stream);
    }
    ~ThreadStream() {
        StreamState& s = stream_state();
        std::lock_guard lock(s.mutex);
        s.streams.erase(handle_);
    }
    ThreadStream(const ThreadStream&) = delete;
    ThreadStream& operator=(const ThreadStream&) = delete;

    Stream* handle() const { return handle_; }

  private:
    Stream* handle_;
};

/// The nodes of a tail that the program has not removed since, as Graph::add takes them.
std::vector<GraphNode*> live_nodes(const std::vector<NodePointer>& tail, const Graph& graph) {
    std::vector<GraphNode*> nodes;
    for (const NodePointer& node : tail) {
        if (node->graph == &graph) {
            nodes.push_back(node.get());
        }
    }
    return nodes;
}

void add_captured(Stream& stream, Operation operation) {
    const GraphLock lock;
    Capture& capture = *stream.capture;
    NodePointer node = capture.graph->add(std::move(operation),
                                          live_nodes(stream.tail, *capture.graph));
    capture.captured.push_back(node);
    stream.tail = {std::move(node)};
}

/// Nodes of one graph from their handles; false if any is none.
bool find_nodes(const Graph& graph, GraphNode* const* handles, size_t count,
                std::vector<NodePointer>& out) {
    for (size_t i = 0; i < count; ++i) {
        const auto found =
            std::find_if(graph.nodes().begin(), graph.nodes().end(),
                         [&](const NodePointer& node) { return node.get() == handles[i]; });
        if (found == graph.nodes().end()) {
            return false;
        }
        out.push_back(*found);
    }
    return true;
}

/// Starts the capture of a stream, into `graph` behind `tail` or into a new one.
Error begin(Stream* stream, int mode, std::shared_ptr<Graph> graph, std::vector<NodePointer> tail) {
    if (mode < kModeGlobal || mode > kModeRelaxed) {
        return kInvalidValue;
    }
    stream = resolve_stream(stream);
    if (is_special(stream)) {
        return kStreamCaptureUnsupported;
    }
    StreamState& s = stream_state();
    std::lock_guard lock(s.mutex);
    if (s.streams.count(stream) == 0) {
        return kContextIsDestroyed;
    }
    if (stream->capture) {
        return kIllegalState;
    }
    auto capture = std::make_shared<Capture>();
    capture->is_existing = graph != nullptr;
    capture->graph = graph ? std::move(graph) : std::make_shared<Graph>();
    capture->id = s.next_capture_id++;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    stream->capture = std::move(capture);
    stream->is_capture_origin = true;
    stream->tail = std::move(tail);
    return kSuccess;
}

/// Whether a node of the capture is the end of a branch that `origin` does not wait for.
bool has_unjoined(const Stream& origin) {
    const Capture& capture = *origin.capture;
    const auto is_in = [](const std::vector<NodePointer>& list, const NodePointer& node) {
        return std::find(list.begin(), list.end(), node) != list.end();
    };
    return std::any_of(capture.captured.begin(), capture.captured.end(), [&](const auto& node) {
        return node->graph == capture.graph.get() && node->dependents.empty() &&
               !is_in(origin.tail, node) && !is_in(capture.dropped, node);
    });
}

void leave_capture(StreamState& s, const std::shared_ptr<Capture>& capture) {
    for (const auto& [handle, stream] : s.streams) {
        if (stream->capture == capture) {
            stream->capture.reset();
            stream->is_capture_origin = false;
            stream->tail.clear();
            stream->shown.clear();
        }
    }
    for (const auto& [handle, event] : s.events) {
        if (event->capture.lock() == capture) {
            event->capture.reset();
            event->tail.clear();
        }
    }
}

Error end(Stream* stream, Graph** out) {
    std::shared_ptr<Capture> capture;
    stream = resolve_stream(stream);
    StreamState& s = stream_state();
    std::lock_guard lock(s.mutex);
    *out = nullptr;
    if (is_special(stream)) {
        return kIllegalState;
    }
    if (s.streams.count(stream) == 0) {
        return kContextIsDestroyed;
    }
    capture = stream->capture;
    if (!capture || !stream->is_capture_origin) {
        return capture ? kStreamCaptureUnmatched : kIllegalState;
    }
    if (capture->mode != kModeRelaxed && capture->thread != std::this_thread::get_id()) {
        return kStreamCaptureWrongThread;
    }
    const GraphLock graph_lock;
    const bool is_unjoined = has_unjoined(*stream);
    leave_capture(s, capture);
    if (capture->is_invalid || is_unjoined) {
        return capture->is_invalid ? kStreamCaptureInvalidated : kStreamCaptureUnjoined;
    }
    *out = capture->is_existing ? capture->graph.get() : keep_graph(capture->graph);
    return kSuccess;
}

struct CaptureInfo {
    int* status;
    uint64_t* id = nullptr;
    Graph** graph = nullptr;
    GraphNode* const** dependencies = nullptr;
    size_t* count = nullptr;
};

Error get_info(Stream* stream, const CaptureInfo& out) {
    if (!out.status) {
        return kInvalidValue;
    }
    if (!is_stream(stream)) {
        return kInvalidHandle;
    }
    stream = resolve_stream(stream);
    const auto capture = capture_of(stream);
    *out.status = !capture ? kStatusNone : capture->is_invalid ? kStatusInvalidated : kStatusActive;
    std::vector<GraphNode*>* shown = nullptr;
    if (capture) {
        StreamState& s = stream_state();
        std::lock_guard lock(s.mutex);
        const GraphLock graph_lock;
        stream->shown = live_nodes(stream->tail, *capture->graph);
        shown = &stream->shown;
    }
    if (out.id && capture) {
        *out.id = capture->id;
    }
    if (out.graph) {
        *out.graph = capture ? capture->graph.get() : nullptr;
    }
    if (out.dependencies) {
        *out.dependencies = shown ? shown->data() : nullptr;
    }
    if (out.count) {
        *out.count = shown ? shown->size() : 0;
    }
    return kSuccess;
}

Error update_dependencies(Stream* stream, GraphNode* const* nodes, size_t count, unsigned flags) {
    if ((!nodes && count != 0) || flags > kSetDependencies || !is_stream(stream)) {
        return is_stream(stream) ? kInvalidValue : kInvalidHandle;
    }
    stream = resolve_stream(stream);
    const auto capture = capture_of(stream);
    if (!capture) {
        return kIllegalState;
    }
    StreamState& s = stream_state();
    std::lock_guard lock(s.mutex);
    const GraphLock graph_lock;
    std::vector<NodePointer> tail;
    if (!find_nodes(*capture->graph, nodes, count, tail)) {
        return kInvalidValue;
    }
    if (flags == kAddDependencies) {
        tail.insert(tail.begin(), stream->tail.begin(), stream->tail.end());
    } else {
        capture->dropped.insert(capture->dropped.end(), stream->tail.begin(), stream->tail.end());
    }
    stream->tail = std::move(tail);
    return kSuccess;
}

}  // namespace

Stream* resolve_stream(const Stream* stream) {
    if (reinterpret_cast<uintptr_t>(stream) == kPerThreadHandle) {
        static thread_local ThreadStream own;
        return own.handle();
    }
    return const_cast<Stream*>(stream);
}

std::shared_ptr<Capture> capture_of(const Stream* stream) {
    stream = resolve_stream(stream);
    if (is_special(stream)) {
        return nullptr;
    }
    StreamState& s = stream_state();
    std::lock_guard lock(s.mutex);
    const auto found = s.streams.find(stream);
    return found == s.streams.end() ? nullptr : found->second->capture;
}

Error submit(const Stream* stream, Operation operation) {
    stream = resolve_stream(stream);
    if (!is_special(stream)) {
        StreamState& s = stream_state();
        std::lock_guard lock(s.mutex);
        const auto found = s.streams.find(stream);
        if (found == s.streams.end()) {
            return kInvalidHandle;
        }
        if (found->second->capture) {
            add_captured(*found->second, std::move(operation));
            return kSuccess;
        }
    }
    return run(operation);
}

Error forbid_while_capturing(const Stream* stream) {
    const auto capture = capture_of(stream);
    if (!capture) {
        return kSuccess;
    }
    capture->is_invalid = true;
    return kStreamCaptureUnsupported;
}

HIP_SLOT(hipStreamBeginCapture)(Stream* stream, int mode) {
    return api([&] { return begin(stream, mode, nullptr, {}); });
}
HIP_SLOT(hipStreamBeginCapture_spt)(Stream* stream, int mode) {
    return slot_hipStreamBeginCapture(stream, mode);
}
HIP_SLOT(hipStreamBeginCaptureToGraph)(Stream* stream, Graph* graph, GraphNode* const* nodes,
                                       const void* edge_data, size_t count, int mode) {
    return api([&] {
        std::vector<NodePointer> tail;
        std::shared_ptr<Graph> shared;
        {
            const GraphLock lock;
            shared = share_graph(graph);
            if (edge_data) {
                return kNotSupported;
            }
            if (!shared || (nodes == nullptr) != (count == 0) ||
                !find_nodes(*shared, nodes, count, tail)) {
                return kInvalidValue;
            }
        }
        return begin(stream, mode, std::move(shared), std::move(tail));
    });
}
HIP_SLOT(hipStreamEndCapture)(Stream* stream, Graph** graph) {
    return api([&] { return graph ? end(stream, graph) : kInvalidValue; });
}
HIP_SLOT(hipStreamEndCapture_spt)(Stream* stream, Graph** graph) {
    return slot_hipStreamEndCapture(stream, graph);
}
HIP_SLOT(hipStreamIsCapturing)(Stream* stream, int* status) {
    return api([&] { return get_info(stream, {status}); });
}
HIP_SLOT(hipStreamIsCapturing_spt)(Stream* stream, int* status) {
    return slot_hipStreamIsCapturing(stream, status);
}
HIP_SLOT(hipStreamGetCaptureInfo)(Stream* stream, int* status, uint64_t* id) {
    return api([&] { return get_info(stream, {status, id}); });
}
HIP_SLOT(hipStreamGetCaptureInfo_spt)(Stream* stream, int* status, uint64_t* id) {
    return slot_hipStreamGetCaptureInfo(stream, status, id);
}
HIP_SLOT(hipStreamGetCaptureInfo_v2)(Stream* stream, int* status, uint64_t* id, Graph** graph,
                                     GraphNode* const** dependencies, size_t* count) {
    return api([&] { return get_info(stream, {status, id, graph, dependencies, count}); });
}
HIP_SLOT(hipStreamGetCaptureInfo_v2_spt)(Stream* stream, int* status, uint64_t* id, Graph** graph,
                                         GraphNode* const** dependencies, size_t* count) {
    return slot_hipStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
}
HIP_SLOT(hipStreamUpdateCaptureDependencies)(Stream* stream, GraphNode* const* nodes, size_t count,
                                             unsigned flags) {
    return api([&] { return update_dependencies(stream, nodes, count, flags); });
}
HIP_SLOT(hipThreadExchangeStreamCaptureMode)(int* mode) {
    return api([&] {
        if (!mode || *mode < kModeGlobal || *mode > kModeRelaxed) {
            return kInvalidValue;
        }
        std::swap(*mode, t_mode);
        return kSuccess;
    });
}

}  // namespace asmevo::emulator::hip
