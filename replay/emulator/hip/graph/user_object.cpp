// User objects: resources of the program that live as long as the graphs that use them.
#include <set>

#include "hip/api.h"
#include "hip/graph/graph.h"

namespace asmevo::emulator::hip {
namespace {

std::set<UserObject*>& objects() {
    static auto& instance = *new std::set<UserObject*>;
    return instance;
}

/// Counts stay far from overflow.
constexpr uint64_t kMaxReferences = 1ull << 40;

bool is_usable(UserObject* object, unsigned count) {
    return objects().count(object) && count != 0 && object->references < kMaxReferences;
}

}  // namespace

void release_user_object(UserObject* object, uint64_t count) {
    object->references -= count;
    if (object->references == 0) {
        objects().erase(object);
        object->destroy(object->pointer);
        delete object;
    }
}

HIP_SLOT(hipUserObjectCreate)(UserObject** out, void* pointer, void (*destroy)(void*),
                              unsigned references, unsigned flags) {
    return api([&] {
        constexpr unsigned kNoDestructorSync = 1;
        if (!out || !destroy || references == 0 || flags != kNoDestructorSync) {
            return kInvalidValue;
        }
        const GraphLock lock;
        *out = new UserObject{pointer, destroy, references};
        objects().insert(*out);
        return kSuccess;
    });
}

HIP_SLOT(hipUserObjectRetain)(UserObject* object, unsigned count) {
    return api([&] {
        const GraphLock lock;
        return is_usable(object, count) ? (object->references += count, kSuccess) : kInvalidValue;
    });
}

HIP_SLOT(hipUserObjectRelease)(UserObject* object, unsigned count) {
    return api_always([&] {
        const GraphLock lock;
        if (!is_usable(object, count) || object->references < count) {
            return kInvalidValue;
        }
        release_user_object(object, count);
        return kSuccess;
    });
}

HIP_SLOT(hipGraphRetainUserObject)(Graph* handle, UserObject* object, unsigned count,
                                   unsigned flags) {
    return api([&] {
        constexpr unsigned kMove = 1;
        const GraphLock lock;
        Graph* graph = find_graph(handle);
        if (!graph || !is_usable(object, count) || flags > kMove) {
            return kInvalidValue;
        }
        if (flags != kMove) {
            object->references += count;
        }
        graph->user_objects()[object] += count;
        return kSuccess;
    });
}

HIP_SLOT(hipGraphReleaseUserObject)(Graph* handle, UserObject* object, unsigned count) {
    return api_always([&] {
        const GraphLock lock;
        Graph* graph = find_graph(handle);
        if (!graph || !is_usable(object, count)) {
            return kInvalidValue;
        }
        const auto held = graph->user_objects().find(object);
        if (held == graph->user_objects().end() || held->second < count) {
            return kInvalidValue;
        }
        held->second -= count;
        if (held->second == 0) {
            graph->user_objects().erase(held);
        }
        release_user_object(object, count);
        return kSuccess;
    });
}

}  // namespace asmevo::emulator::hip
