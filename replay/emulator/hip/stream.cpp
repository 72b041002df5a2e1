// Streams, events and host functions.
#include "hip/stream.h"

#include <chrono>
#include <map>
#include <memory>
#include <mutex>

#include "hip/api.h"

namespace asmevo::emulator::hip {
namespace {

using Clock = std::chrono::steady_clock;

/// hipEvent_t. Its time is the host's clock at the record: what the emulation took, not a modelled
/// GPU time.
struct Event {
    unsigned flags = 0;
    bool is_recorded = false;
    Clock::time_point time;
    std::weak_ptr<Graph> capture;  // recorded in a captured stream: who waits for it joins
};
constexpr unsigned kEventDisableTiming = 2;

struct State {
    std::mutex mutex;
    std::map<const Stream*, std::unique_ptr<Stream>> streams;
    std::map<const Event*, std::unique_ptr<Event>> events;
    uint64_t next_stream_id = 1;
};

State& state() {
    static State& instance = *new State;
    return instance;
}

bool is_special(const Stream* stream) {
    return reinterpret_cast<uintptr_t>(stream) <= 2;
}

Error create_stream(Stream** out, unsigned flags, int priority) {
    if (!out || flags > 1) {
        return kInvalidValue;
    }
    State& s = state();
    std::lock_guard lock(s.mutex);
    auto stream = std::make_unique<Stream>();
    stream->flags = flags;
    stream->priority = priority;
    stream->id = s.next_stream_id++;
    *out = stream.get();
    s.streams[*out] = std::move(stream);
    return kSuccess;
}

/// Runs `use` on an existing event under the lock.
template <typename Use>
Error with_event(const Event* event, Use&& use) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    auto found = s.events.find(event);
    return found == s.events.end() ? kInvalidHandle : use(*found->second);
}

template <typename Value>
Error get_from(const Stream* stream, Value* out, Value Stream::* member) {
    if (!out) {
        return kInvalidValue;
    }
    if (!is_stream(stream)) {
        return kInvalidHandle;
    }
    *out = is_special(stream) ? Value{} : stream->*member;
    return kSuccess;
}

/// In a captured stream the event stands for that point of the graph and has no time.
Error record_event(Event* event, const Stream* stream) {
    std::shared_ptr<Graph> capture;
    if (!find_stream(stream, capture)) {
        return kInvalidHandle;
    }
    return with_event(event, [&](Event& e) {
        e.is_recorded = !capture;
        e.time = Clock::now();
        e.capture = capture;
        return kSuccess;
    });
}

/// Work after an event of a captured stream belongs to the same graph.
Error wait_event(Stream* stream, const Event* event) {
    if (!is_stream(stream)) {
        return kInvalidHandle;
    }
    return with_event(event, [&](const Event& e) {
        if (auto capture = e.capture.lock(); capture && state().streams.count(stream) != 0) {
            stream->capture = std::move(capture);
        }
        return kSuccess;
    });
}

/// All work is done: an idle stream, a reached event.
Error check_idle(const Stream* stream) {
    std::shared_ptr<Graph> capture;
    return !find_stream(stream, capture) ? kInvalidHandle
           : capture                     ? kStreamCaptureUnsupported
                                         : kSuccess;
}
Error check_event(const Event* event) {
    return with_event(event, [](const Event& e) {
        return e.capture.expired() ? kSuccess : kStreamCaptureUnsupported;
    });
}

/// hipStreamCaptureStatus: 0 none, 1 active. The graph's address identifies the capture.
Error capture_status(const Stream* stream, int* status, uint64_t* id, Graph** graph) {
    std::shared_ptr<Graph> capture;
    if (!status || !find_stream(stream, capture)) {
        return status ? kInvalidHandle : kInvalidValue;
    }
    *status = capture ? 1 : 0;
    if (id) {
        *id = reinterpret_cast<uint64_t>(capture.get());
    }
    if (graph) {
        *graph = capture.get();
    }
    return kSuccess;
}

}  // namespace

bool find_stream(const Stream* stream, std::shared_ptr<Graph>& capture) {
    capture.reset();
    if (is_special(stream)) {
        return true;
    }
    State& s = state();
    std::lock_guard lock(s.mutex);
    const auto found = s.streams.find(stream);
    if (found == s.streams.end()) {
        return false;
    }
    capture = found->second->capture;
    return true;
}

Error begin_capture(Stream* stream) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    const auto found = s.streams.find(stream);
    if (found == s.streams.end()) {
        return is_special(stream) ? kStreamCaptureUnsupported : kInvalidHandle;
    }
    if (stream->capture) {
        return kIllegalState;
    }
    stream->capture = std::make_shared<Graph>();
    stream->is_capture_origin = true;
    return kSuccess;
}

Error end_capture(Stream* stream, std::shared_ptr<Graph>& graph) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (s.streams.find(stream) == s.streams.end() || !stream->capture ||
        !stream->is_capture_origin) {
        return kIllegalState;
    }
    graph = stream->capture;
    stream->is_capture_origin = false;
    for (const auto& [handle, joined] : s.streams) {
        if (joined->capture == graph) {
            joined->capture.reset();
        }
    }
    for (const auto& [handle, event] : s.events) {
        if (event->capture.lock() == graph) {
            event->capture.reset();
        }
    }
    return kSuccess;
}

bool is_stream(const Stream* stream) {
    if (is_special(stream)) {
        return true;
    }
    State& s = state();
    std::lock_guard lock(s.mutex);
    return s.streams.count(stream) != 0;
}

HIP_SLOT(hipStreamCreate)(Stream** stream) {
    return api([&] { return create_stream(stream, 0, 0); });
}
HIP_SLOT(hipStreamCreateWithFlags)(Stream** stream, unsigned flags) {
    return api([&] { return create_stream(stream, flags, 0); });
}
HIP_SLOT(hipStreamCreateWithPriority)(Stream** stream, unsigned flags, int priority) {
    return api([&] {
        return create_stream(stream, flags, priority < -1 ? -1 : priority > 1 ? 1 : priority);
    });
}
HIP_SLOT(hipStreamDestroy)(Stream* stream) {
    return api_always([&] {
        State& s = state();
        std::lock_guard lock(s.mutex);
        return s.streams.erase(stream) ? kSuccess : kInvalidHandle;
    });
}
HIP_SLOT(hipStreamSynchronize)(Stream* stream) {
    return api([&] { return check_idle(stream); });
}
HIP_SLOT(hipStreamSynchronize_spt)(Stream* stream) {
    return slot_hipStreamSynchronize(stream);
}
HIP_SLOT(hipStreamQuery)(Stream* stream) {
    return api([&] { return check_idle(stream); });
}
HIP_SLOT(hipStreamQuery_spt)(Stream* stream) {
    return slot_hipStreamQuery(stream);
}
HIP_SLOT(hipStreamGetFlags)(Stream* stream, unsigned* flags) {
    return api([&] { return get_from(stream, flags, &Stream::flags); });
}
HIP_SLOT(hipStreamGetPriority)(Stream* stream, int* priority) {
    return api([&] { return get_from(stream, priority, &Stream::priority); });
}
HIP_SLOT(hipStreamGetId)(Stream* stream, uint64_t* id) {
    return api([&] { return get_from(stream, id, &Stream::id); });
}
HIP_SLOT(hipStreamGetDevice)(Stream* stream, int* device) {
    return api([&] {
        return !device              ? kInvalidValue
               : !is_stream(stream) ? kInvalidHandle
                                    : (*device = 0, kSuccess);
    });
}
HIP_SLOT_RETURNING(int, hipGetStreamDeviceId)(Stream* stream) {
    return is_stream(stream) ? 0 : -1;
}
HIP_SLOT(hipStreamIsCapturing)(Stream* stream, int* status) {
    return api([&] { return capture_status(stream, status, nullptr, nullptr); });
}
HIP_SLOT(hipStreamIsCapturing_spt)(Stream* stream, int* status) {
    return slot_hipStreamIsCapturing(stream, status);
}
HIP_SLOT(hipStreamGetCaptureInfo)(Stream* stream, int* status, uint64_t* id) {
    return api([&] { return capture_status(stream, status, id, nullptr); });
}
HIP_SLOT(hipStreamGetCaptureInfo_v2)(Stream* stream, int* status, uint64_t* id, Graph** graph,
                                     const GraphNode*** dependencies, size_t* dependency_count) {
    return api([&] {
        if (dependencies) {
            *dependencies = nullptr;
        }
        if (dependency_count) {
            *dependency_count = 0;
        }
        return capture_status(stream, status, id, graph);
    });
}
HIP_SLOT(hipThreadExchangeStreamCaptureMode)(int* mode) {
    return api([&] { return mode ? kSuccess : kInvalidValue; });
}
HIP_SLOT(hipStreamWaitEvent)(Stream* stream, Event* event, unsigned) {
    return api([&] { return wait_event(stream, event); });
}
HIP_SLOT(hipStreamAddCallback)(Stream* stream, void (*callback)(Stream*, int, void*), void* data,
                               unsigned) {
    return api([&] {
        if (!callback) {
            return kInvalidValue;
        }
        const Error error = check_idle(stream);
        return error == kSuccess ? (callback(stream, kSuccess, data), kSuccess) : error;
    });
}
HIP_SLOT(hipLaunchHostFunc)(Stream* stream, void (*function)(void*), void* data) {
    return api([&] {
        if (!function) {
            return kInvalidValue;
        }
        return submit(stream, NodeType::kHost, [=] {
            function(data);
            return kSuccess;
        });
    });
}

HIP_SLOT(hipEventCreateWithFlags)(Event** out, unsigned flags) {
    return api([&] {
        if (!out) {
            return kInvalidValue;
        }
        State& s = state();
        std::lock_guard lock(s.mutex);
        auto event = std::make_unique<Event>();
        event->flags = flags;
        *out = event.get();
        s.events[*out] = std::move(event);
        return kSuccess;
    });
}
HIP_SLOT(hipEventCreate)(Event** out) {
    return slot_hipEventCreateWithFlags(out, 0);
}
HIP_SLOT(hipEventDestroy)(Event* event) {
    return api_always([&] {
        State& s = state();
        std::lock_guard lock(s.mutex);
        return s.events.erase(event) ? kSuccess : kInvalidHandle;
    });
}
HIP_SLOT(hipEventRecord)(Event* event, Stream* stream) {
    return api([&] { return record_event(event, stream); });
}
HIP_SLOT(hipEventRecord_spt)(Event* event, Stream* stream) {
    return slot_hipEventRecord(event, stream);
}
HIP_SLOT(hipEventRecordWithFlags)(Event* event, Stream* stream, unsigned) {
    return slot_hipEventRecord(event, stream);
}
HIP_SLOT(hipEventSynchronize)(Event* event) {
    return api([&] { return check_event(event); });
}
HIP_SLOT(hipEventQuery)(Event* event) {
    return api([&] { return check_event(event); });
}
HIP_SLOT(hipEventElapsedTime)(float* milliseconds, Event* from, Event* to) {
    return api([&] {
        if (!milliseconds) {
            return kInvalidValue;
        }
        State& s = state();
        std::lock_guard lock(s.mutex);
        auto first = s.events.find(from), last = s.events.find(to);
        if (first == s.events.end() || last == s.events.end() || !first->second->is_recorded ||
            !last->second->is_recorded ||
            (first->second->flags | last->second->flags) & kEventDisableTiming) {
            return kInvalidHandle;
        }
        *milliseconds =
            std::chrono::duration<float, std::milli>(last->second->time - first->second->time)
                .count();
        return kSuccess;
    });
}

}  // namespace asmevo::emulator::hip
