// Streams and host functions.
#include "hip/stream.h"

#include <algorithm>
#include <cstring>

#include "hip/api.h"

namespace asmevo::emulator::hip {
namespace {

constexpr int kLowestPriority = 1, kHighestPriority = -1;

Error create_stream(Stream** out, unsigned flags, int priority) {
    if (!out || flags > 1) {
        return kInvalidValue;
    }
    StreamState& s = stream_state();
    std::lock_guard lock(s.mutex);
    auto stream = std::make_unique<Stream>();
    stream->flags = flags;
    stream->priority = priority;
    stream->id = s.next_stream_id++;
    *out = stream.get();
    s.streams[*out] = std::move(stream);
    return kSuccess;
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

/// All work of an existing stream is done, unless it is captured.
Error check_idle(const Stream* stream) {
    return !is_stream(stream) ? kInvalidHandle : forbid_while_capturing(stream);
}

/// hipStreamAttrID: access policy window, synchronisation policy, priority, memory domains. None
/// changes what a stream computes; only the priority is kept.
bool is_stream_attribute(int id) {
    return id == 1 || id == 3 || id == 8 || id == 9 || id == 10;
}
constexpr int kPriorityAttribute = 8;

}  // namespace

StreamState& stream_state() {
    static StreamState& instance = *new StreamState;
    return instance;
}

bool is_special(const Stream* stream) {
    return reinterpret_cast<uintptr_t>(stream) <= 2;
}

bool is_stream(const Stream* stream) {
    if (is_special(stream)) {
        return true;
    }
    StreamState& s = stream_state();
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
        return create_stream(stream, flags,
                             std::clamp(priority, kHighestPriority, kLowestPriority));
    });
}
/// Work is not confined to compute units: the mask is without effect on results.
HIP_SLOT(hipExtStreamCreateWithCUMask)(Stream** stream, uint32_t words, const uint32_t* mask) {
    return api([&] {
        return !stream ? kInvalidHandle
               : !mask || words == 0 ? kInvalidValue
                                     : create_stream(stream, 0, 0);
    });
}
HIP_SLOT(hipStreamDestroy)(Stream* stream) {
    return api_always([&] {
        StreamState& s = stream_state();
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
HIP_SLOT(hipStreamGetFlags_spt)(Stream* stream, unsigned* flags) {
    return slot_hipStreamGetFlags(stream, flags);
}
HIP_SLOT(hipStreamGetPriority)(Stream* stream, int* priority) {
    return api([&] { return get_from(stream, priority, &Stream::priority); });
}
HIP_SLOT(hipStreamGetPriority_spt)(Stream* stream, int* priority) {
    return slot_hipStreamGetPriority(stream, priority);
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
HIP_SLOT(hipStreamGetAttribute)(Stream* stream, int id, NodeAttribute* value) {
    return api([&] {
        if (!value || !is_stream_attribute(id)) {
            return kInvalidValue;
        }
        *value = {};
        int priority = 0;
        const Error error = get_from(stream, &priority, &Stream::priority);
        if (error == kSuccess && id == kPriorityAttribute) {
            std::memcpy(value->data(), &priority, sizeof priority);
        }
        return error;
    });
}
HIP_SLOT(hipStreamSetAttribute)(Stream* stream, int id, const NodeAttribute* value) {
    return api([&] {
        return !value || !is_stream_attribute(id) ? kInvalidValue
               : is_stream(stream)                ? kSuccess
                                                  : kInvalidHandle;
    });
}
HIP_SLOT(hipStreamCopyAttributes)(Stream* to, Stream* from) {
    return api([&] { return is_stream(to) && is_stream(from) ? kSuccess : kInvalidHandle; });
}
HIP_SLOT(hipStreamAttachMemAsync)(Stream* stream, void* pointer, size_t, unsigned flags) {
    return api([&] {
        const bool is_known = flags == 1 || flags == 2 || flags == 4;  // global, host, single
        return !pointer || !is_known ? kInvalidValue
               : is_stream(stream)   ? kSuccess
                                     : kInvalidHandle;
    });
}
HIP_SLOT(hipStreamAddCallback)(Stream* stream, void (*callback)(Stream*, int, void*), void* data,
                               unsigned flags) {
    return api([&] {
        if (!callback || flags != 0) {
            return kInvalidValue;
        }
        const Error error = check_idle(stream);
        return error == kSuccess ? (callback(stream, kSuccess, data), kSuccess) : error;
    });
}
HIP_SLOT(hipStreamAddCallback_spt)(Stream* stream, void (*callback)(Stream*, int, void*),
                                   void* data, unsigned flags) {
    return slot_hipStreamAddCallback(stream, callback, data, flags);
}
HIP_SLOT(hipLaunchHostFunc)(Stream* stream, void (*function)(void*), void* data) {
    return api([&] {
        return function ? submit(stream, HostOperation{function, data}) : kInvalidValue;
    });
}
HIP_SLOT(hipLaunchHostFunc_spt)(Stream* stream, void (*function)(void*), void* data) {
    return slot_hipLaunchHostFunc(stream, function, data);
}

}  // namespace asmevo::emulator::hip
