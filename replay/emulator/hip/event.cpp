// Events. A recorded one has been reached: the work before it is done.
#include <algorithm>

#include "hip/api.h"
#include "hip/per_thread_stream.h"
#include "hip/stream.h"

namespace asmevo::emulator::hip {
namespace {

constexpr unsigned kDisableTiming = 2;
constexpr unsigned kExternal = 1;  // hipEventRecordExternal, hipEventWaitExternal

/// Runs `use` on an existing event under the lock.
template <typename Use>
Error with_event(const Event* event, Use&& use) {
    StreamState& s = stream_state();
    std::lock_guard lock(s.mutex);
    auto found = s.events.find(event);
    return found == s.events.end() ? kInvalidHandle : use(*found->second);
}

/// In a captured stream the event stands for that point of the graph and has no time; an external
/// record becomes a node instead.
Error record_event(Event* event, const Stream* stream, unsigned flags) {
    if (!event || flags > kExternal) {
        return event ? kInvalidValue : kInvalidHandle;
    }
    if (!is_event(event) || !is_stream(stream)) {
        return kInvalidHandle;
    }
    stream = resolve_stream(stream);
    const auto capture = capture_of(stream);
    if (!capture || flags == kExternal) {
        return submit(stream, EventRecordOperation{event});
    }
    return with_event(event, [&](Event& e) {
        e.is_recorded = false;
        e.capture = capture;
        e.tail = stream->tail;
        return kSuccess;
    });
}

/// Work after an event of a captured stream belongs to the same graph, behind what the event stands
/// for. A captured stream waits for nothing outside of its graph, unless the wait is external.
Error wait_event(Stream* stream, Event* event, unsigned flags) {
    if (!is_stream(stream) || !event) {
        return kInvalidHandle;
    }
    stream = resolve_stream(stream);
    const auto own = capture_of(stream);
    if (own && flags == kExternal) {
        return is_event(event) ? submit(stream, EventWaitOperation{event}) : kInvalidHandle;
    }
    return with_event(event, [&](const Event& e) {
        const auto capture = e.capture.lock();
        if (!capture) {
            return own ? kStreamCaptureIsolation : kSuccess;
        }
        if (is_special(stream)) {
            return kStreamCaptureImplicit;
        }
        if (own && own != capture) {
            return kStreamCaptureMerge;
        }
        stream->capture = capture;
        for (const NodePointer& node : e.tail) {
            const bool is_known = std::find(stream->tail.begin(), stream->tail.end(), node) !=
                                  stream->tail.end();
            if (!is_known) {
                stream->tail.push_back(node);
            }
        }
        return kSuccess;
    });
}

/// Asking for an event of a capture breaks the capture.
Error check_event(const Event* event) {
    return with_event(event, [](const Event& e) {
        const auto capture = e.capture.lock();
        if (capture) {
            capture->is_invalid = true;
        }
        return capture ? kCapturedEvent : kSuccess;
    });
}

Error elapsed_time(float* milliseconds, const Event* from, const Event* to) {
    StreamState& s = stream_state();
    std::lock_guard lock(s.mutex);
    const auto first = s.events.find(from), last = s.events.find(to);
    if (first == s.events.end() || last == s.events.end() || !first->second->is_recorded ||
        !last->second->is_recorded ||
        (first->second->flags | last->second->flags) & kDisableTiming) {
        return kInvalidHandle;
    }
    const auto time = last->second->time - first->second->time;
    *milliseconds = std::chrono::duration<float, std::milli>(time).count();
    return kSuccess;
}

}  // namespace

bool is_event(const Event* event) {
    StreamState& s = stream_state();
    std::lock_guard lock(s.mutex);
    return s.events.count(event) != 0;
}

void note_event(const Event* event) {
    with_event(event, [](Event& e) {
        e.is_recorded = true;
        e.time = Event::Clock::now();
        e.capture.reset();
        e.tail.clear();
        return kSuccess;
    });
}

HIP_SLOT(hipEventCreateWithFlags)(Event** out, unsigned flags) {
    return api([&] {
        if (!out) {
            return kInvalidValue;
        }
        StreamState& s = stream_state();
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
        StreamState& s = stream_state();
        std::lock_guard lock(s.mutex);
        return s.events.erase(event) ? kSuccess : kInvalidHandle;
    });
}
HIP_SLOT(hipEventRecord)(Event* event, Stream* stream) {
    return api([&] { return record_event(event, stream, 0); });
}
HIP_SLOT(hipEventRecord_spt)(Event* event, Stream* stream) {
    return slot_hipEventRecord(event, stream);
}
HIP_SLOT(hipEventRecordWithFlags)(Event* event, Stream* stream, unsigned flags) {
    return api([&] { return record_event(event, stream, flags); });
}
HIP_SLOT(hipStreamWaitEvent)(Stream* stream, Event* event, unsigned flags) {
    return api([&] { return wait_event(stream, event, flags); });
}
HIP_SLOT(hipStreamWaitEvent_spt)(Stream* stream, Event* event, unsigned flags) {
    return slot_hipStreamWaitEvent(stream, event, flags);
}
HIP_SLOT(hipEventSynchronize)(Event* event) {
    return api([&] { return check_event(event); });
}
HIP_SLOT(hipEventQuery)(Event* event) {
    return api([&] { return check_event(event); });
}
HIP_SLOT(hipEventElapsedTime)(float* milliseconds, Event* from, Event* to) {
    return api([&] { return milliseconds ? elapsed_time(milliseconds, from, to) : kInvalidValue; });
}

}  // namespace asmevo::emulator::hip
