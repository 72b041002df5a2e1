// Streams and events. Every operation runs when it is enqueued, in the calling thread, so a stream
// is always idle when a call returns and stream order holds by construction. While a stream is
// captured, its operations go into a graph instead.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "hip/graph.h"

namespace asmevo::emulator::hip {

struct Stream {
    unsigned flags = 0;
    int priority = 0;
    uint64_t id = 0;
    std::shared_ptr<Graph> capture;  // where its operations go; null: they run
    bool is_capture_origin = false;  // the stream that the capture began on
};

/// Null and the two special handles (legacy 1, per-thread 2) are streams; otherwise one that was
/// created and not destroyed. The second form also gives the graph that captures it, or null.
bool is_stream(const Stream* stream);
bool find_stream(const Stream* stream, std::shared_ptr<Graph>& capture);

Error begin_capture(Stream* stream);
/// Ends the capture of `stream`, on which it began, and of the streams that joined it.
Error end_capture(Stream* stream, std::shared_ptr<Graph>& graph);

/// Runs an operation of `stream` now, or puts it into the graph that captures the stream. The
/// operation must hold what it needs by value.
template <typename Operation>
Error submit(const Stream* stream, NodeType type, Operation&& operation) {
    std::shared_ptr<Graph> capture;
    if (!find_stream(stream, capture)) {
        return kInvalidHandle;
    }
    if (!capture) {
        return operation();
    }
    capture->add(type, std::forward<Operation>(operation));
    return kSuccess;
}

}  // namespace asmevo::emulator::hip
