// Memory pools: the device's own and those that the program makes. Nothing is kept back in them, so
// their attributes are constant.
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#include "hip/allocation.h"
#include "hip/api.h"
#include "hip/stream.h"

namespace asmevo::emulator::hip {
namespace {

struct MemoryPool {};
MemoryPool g_pool;

/// hipMemPoolProps.
struct PoolProperties {
    int allocation_type, handle_types;
    MemLocation location;
    void* security_attributes;
    size_t max_size;
    uint8_t reserved[56];
};
static_assert(sizeof(PoolProperties) == 88);

constexpr int kFirstAttribute = 1, kLastFlag = 3, kReservedCurrent = 5, kLastAttribute = 8;
constexpr int kPinned = 1, kDeviceLocation = 1;

std::mutex g_mutex;
std::set<MemoryPool*>& own_pools() {
    static auto& instance = *new std::set<MemoryPool*>;
    return instance;
}

bool is_pool(MemoryPool* pool) {
    std::lock_guard lock(g_mutex);
    return pool == &g_pool || own_pools().count(pool) != 0;
}

Error give_pool(MemoryPool** out, int device) {
    if (!out) {
        return kInvalidValue;
    }
    return device == 0 ? (*out = &g_pool, kSuccess) : kInvalidDevice;
}

Error create_pool(MemoryPool** out, const PoolProperties* properties) {
    if (!out || !properties || properties->allocation_type != kPinned ||
        properties->location.type != kDeviceLocation || properties->handle_types != 0) {
        return kInvalidValue;
    }
    if (properties->location.id != 0) {
        return kInvalidDevice;
    }
    std::lock_guard lock(g_mutex);
    *out = new MemoryPool;
    own_pools().insert(*out);
    return kSuccess;
}

Error destroy_pool(MemoryPool* pool) {
    std::lock_guard lock(g_mutex);
    if (own_pools().erase(pool) == 0) {
        return kInvalidValue;
    }
    delete pool;
    return kSuccess;
}

}  // namespace

HIP_SLOT(hipMallocAsync)(void** pointer, size_t size, Stream* stream);

HIP_SLOT(hipMemPoolCreate)(MemoryPool** pool, const PoolProperties* properties) {
    return api([&] { return create_pool(pool, properties); });
}
HIP_SLOT(hipMemPoolDestroy)(MemoryPool* pool) {
    return api_always([&] { return destroy_pool(pool); });
}
HIP_SLOT(hipMallocFromPoolAsync)(void** pointer, size_t size, MemoryPool* pool, Stream* stream) {
    return is_pool(pool) ? slot_hipMallocAsync(pointer, size, stream) : record(kInvalidValue);
}
/// The one device always has access.
HIP_SLOT(hipMemPoolSetAccess)(MemoryPool* pool, const MemAccess* access, size_t count) {
    return api([&] {
        if (!is_pool(pool) || (count != 0 && !access)) {
            return kInvalidValue;
        }
        for (size_t i = 0; i < count; ++i) {
            if (access[i].location.type != kDeviceLocation || access[i].location.id != 0 ||
                access[i].flags == kAccessNone) {
                return kInvalidValue;
            }
        }
        return kSuccess;
    });
}
HIP_SLOT(hipMemPoolGetAccess)(int* flags, MemoryPool* pool, const MemLocation* location) {
    return api([&] {
        const bool is_here = location && location->type == kDeviceLocation && location->id == 0;
        return flags && is_pool(pool) && is_here ? (*flags = kAccessReadWrite, kSuccess)
                                                 : kInvalidValue;
    });
}
HIP_SLOT(hipDeviceGetDefaultMemPool)(MemoryPool** pool, int device) {
    return api([&] { return give_pool(pool, device); });
}
HIP_SLOT(hipDeviceGetMemPool)(MemoryPool** pool, int device) {
    return api([&] { return give_pool(pool, device); });
}
HIP_SLOT(hipDeviceSetMemPool)(int device, MemoryPool* pool) {
    return api([&] {
        return device != 0 ? kInvalidDevice : is_pool(pool) ? kSuccess : kInvalidValue;
    });
}
HIP_SLOT(hipMemPoolTrimTo)(MemoryPool* pool, size_t) {
    return api([&] { return is_pool(pool) ? kSuccess : kInvalidValue; });
}
HIP_SLOT(hipMemPoolSetAttribute)(MemoryPool* pool, int attribute, const void* value) {
    return api([&] {
        return is_pool(pool) && value && attribute >= kFirstAttribute &&
                       attribute <= kLastAttribute
                   ? kSuccess
                   : kInvalidValue;
    });
}
HIP_SLOT(hipMemPoolGetAttribute)(MemoryPool* pool, int attribute, void* value) {
    return api([&] {
        if (!is_pool(pool) || !value || attribute < kFirstAttribute ||
            attribute > kLastAttribute) {
            return kInvalidValue;
        }
        const uint64_t bytes = attribute >= kReservedCurrent ? allocated_bytes() : 0;
        std::memcpy(value, &bytes, attribute <= kLastFlag ? sizeof(int) : sizeof bytes);
        return kSuccess;
    });
}

}  // namespace asmevo::emulator::hip
