// Streams and events. Every operation runs when it is enqueued, in the calling thread, so a stream
// is always idle when a call returns and stream order holds by construction. While a stream is
// captured, its operations become nodes of a graph instead.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "hip/graph/graph.h"

namespace asmevo::emulator::hip {

/// One capture: its streams share it. Ends with the stream that it began on.
struct Capture {
    std::shared_ptr<Graph> graph;
    uint64_t id = 0;
    int mode = 0;             // hipStreamCaptureMode
    std::thread::id thread;   // where it began
    bool is_existing = false;  // into a graph of the program's
    bool is_invalid = false;  // a rule was broken: no graph comes of it
    std::vector<NodePointer> captured;  // its own nodes, which must all be joined at its end
    // Nodes that the program took out of a stream's dependencies: they need not be.
    std::vector<NodePointer> dropped;
};

struct Stream {
    unsigned flags = 0;
    int priority = 0;
    uint64_t id = 0;
    std::shared_ptr<Capture> capture;  // null: operations run
    bool is_capture_origin = false;
    std::vector<NodePointer> tail;  // nodes that the stream's next operation depends on
    std::vector<GraphNode*> shown;  // the tail as last given to the program
};

/// hipEvent_t. Its time is the host's clock at the record: what the emulation took, not a modelled
/// GPU time.
struct Event {
    using Clock = std::chrono::steady_clock;

    unsigned flags = 0;
    bool is_recorded = false;
    Clock::time_point time;
    std::weak_ptr<Capture> capture;  // recorded in a captured stream: who waits for it joins
    std::vector<NodePointer> tail;   // what it stands for in that capture
};

/// All streams and events. Its lock may be held when GraphLock is taken, never the other way.
struct StreamState {
    std::mutex mutex;
    std::map<const Stream*, std::unique_ptr<Stream>> streams;
    std::map<const Event*, std::unique_ptr<Event>> events;
    uint64_t next_stream_id = 1, next_capture_id = 1;
};
StreamState& stream_state();

/// The two special handles (legacy 1, per-thread 2) and null, which cannot be captured.
bool is_special(const Stream* stream);
/// Special, or created and not destroyed.
bool is_stream(const Stream* stream);
bool is_event(const Event* event);
/// A stream's capture; null when there is none.
std::shared_ptr<Capture> capture_of(const Stream* stream);

/// Records the present time, if the event still exists.
void note_event(const Event* event);

/// Runs an operation of `stream` now, or puts it into the graph that captures the stream.
Error submit(const Stream* stream, Operation operation);

/// What a call that a captured stream forbids gives: the capture becomes invalid.
Error forbid_while_capturing(const Stream* stream);

}  // namespace asmevo::emulator::hip
