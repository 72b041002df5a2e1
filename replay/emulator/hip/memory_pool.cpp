// Memory pools: there is one, the device's own; nothing is kept back, so all its attributes are
// constant.
#include <cstring>

#include "hip/allocation.h"
#include "hip/api.h"

namespace asmevo::emulator::hip {
namespace {

struct MemoryPool {};
MemoryPool g_pool;

constexpr int kFirstAttribute = 1, kLastFlag = 3, kReservedCurrent = 5, kLastAttribute = 8;

Error give_pool(MemoryPool** out, int device) {
    if (!out) {
        return kInvalidValue;
    }
    return device == 0 ? (*out = &g_pool, kSuccess) : kInvalidDevice;
}

}  // namespace

HIP_SLOT(hipDeviceGetDefaultMemPool)(MemoryPool** pool, int device) {
    return api([&] { return give_pool(pool, device); });
}
HIP_SLOT(hipDeviceGetMemPool)(MemoryPool** pool, int device) {
    return api([&] { return give_pool(pool, device); });
}
HIP_SLOT(hipDeviceSetMemPool)(int device, MemoryPool* pool) {
    return api([&] {
        return device != 0 ? kInvalidDevice : pool == &g_pool ? kSuccess : kInvalidValue;
    });
}
HIP_SLOT(hipMemPoolTrimTo)(MemoryPool* pool, size_t) {
    return api([&] { return pool == &g_pool ? kSuccess : kInvalidValue; });
}
HIP_SLOT(hipMemPoolSetAttribute)(MemoryPool* pool, int attribute, const void* value) {
    return api([&] {
        return pool == &g_pool && value && attribute >= kFirstAttribute &&
                       attribute <= kLastAttribute
                   ? kSuccess
                   : kInvalidValue;
    });
}
HIP_SLOT(hipMemPoolGetAttribute)(MemoryPool* pool, int attribute, void* value) {
    return api([&] {
        if (pool != &g_pool || !value || attribute < kFirstAttribute ||
            attribute > kLastAttribute) {
            return kInvalidValue;
        }
        const uint64_t bytes = attribute >= kReservedCurrent ? allocated_bytes() : 0;
        std::memcpy(value, &bytes, attribute <= kLastFlag ? sizeof(int) : sizeof bytes);
        return kSuccess;
    });
}

}  // namespace asmevo::emulator::hip
