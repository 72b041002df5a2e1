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
    auto stream = std::make_unique<Stream>(Stream{flags, priority, s.next_stream_id++});
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

Error record_event(Event* event, const Stream* stream) {
    if (!is_stream(stream)) {
        return kInvalidHandle;
    }
    return with_event(event, [](Event& e) {
        e.is_recorded = true;
        e.time = Clock::now();
        return kSuccess;
    });
}

/// All work is done: an idle stream, a reached event.
Error check_stream(const Stream* stream) {
    return is_stream(stream) ? kSuccess : kInvalidHandle;
}
Error check_event(const Event* event) {
    return with_event(event, [](Event&) { return kSuccess; });
}

}  // namespace

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
    return api([&] { return check_stream(stream); });
}
HIP_SLOT(hipStreamSynchronize_spt)(Stream* stream) {
    return slot_hipStreamSynchronize(stream);
}
HIP_SLOT(hipStreamQuery)(Stream* stream) {
    return api([&] { return check_stream(stream); });
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
    return api([&] { return device ? (*device = 0, check_stream(stream)) : kInvalidValue; });
}
HIP_SLOT_RETURNING(int, hipGetStreamDeviceId)(Stream* stream) {
    return is_stream(stream) ? 0 : -1;
}
HIP_SLOT(hipStreamIsCapturing)(Stream* stream, int* status) {
    return api([&] { return status ? (*status = 0, check_stream(stream)) : kInvalidValue; });
}
HIP_SLOT(hipStreamGetCaptureInfo)(Stream* stream, int* status, uint64_t* id) {
    return api([&] {
        if (!status) {
            return kInvalidValue;
        }
        *status = 0;
        if (id) {
            *id = 0;
        }
        return check_stream(stream);
    });
}
HIP_SLOT(hipThreadExchangeStreamCaptureMode)(int* mode) {
    return api([&] { return mode ? kSuccess : kInvalidValue; });
}
HIP_SLOT(hipStreamWaitEvent)(Stream* stream, Event* event, unsigned) {
    return api([&] { return is_stream(stream) ? check_event(event) : kInvalidHandle; });
}
HIP_SLOT(hipStreamAddCallback)(Stream* stream, void (*callback)(Stream*, int, void*), void* data,
                               unsigned) {
    return api([&] {
        if (!callback) {
            return kInvalidValue;
        }
        if (!is_stream(stream)) {
            return kInvalidHandle;
        }
        callback(stream, kSuccess, data);
        return kSuccess;
    });
}
HIP_SLOT(hipLaunchHostFunc)(Stream* stream, void (*function)(void*), void* data) {
    return api([&] {
        if (!function) {
            return kInvalidValue;
        }
        if (!is_stream(stream)) {
            return kInvalidHandle;
        }
        function(data);
        return kSuccess;
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
