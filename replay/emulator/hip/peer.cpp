// Other devices and other processes: there is one device, and its memory belongs to its process.
#include <unistd.h>

#include <array>
#include <cstring>

#include "hip/api.h"
#include "hip/log.h"
#include "memory/address_space.h"

namespace asmevo::emulator::hip {
namespace {

/// hipIpcMemHandle_t: passed by value.
struct MemoryHandle {
    int64_t process;
    uint64_t base, size;
    std::array<char, 40> reserved;
};
static_assert(sizeof(MemoryHandle) == 64);

Error make_handle(MemoryHandle* out, const void* pointer) {
    MemoryRange range;
    if (!out || !AddressSpace::get().find(reinterpret_cast<uint64_t>(pointer), 1, range) ||
        range.kind != MemoryKind::kDevice) {
        return kInvalidValue;
    }
    *out = {getpid(), range.base, range.size, {}};
    return kSuccess;
}

}  // namespace

HIP_SLOT(hipDeviceCanAccessPeer)(int* can_access, int device, int peer) {
    return api([&] {
        if (!can_access) {
            return kInvalidValue;
        }
        return device == 0 && peer == 0 ? (*can_access = 0, kSuccess) : kInvalidDevice;
    });
}
HIP_SLOT(hipDeviceEnablePeerAccess)(int, unsigned flags) {
    return api([&] { return flags != 0 ? kInvalidValue : kInvalidDevice; });
}
HIP_SLOT(hipDeviceDisablePeerAccess)(int) {
    return api([] { return kInvalidDevice; });
}
HIP_SLOT(hipDeviceGetP2PAttribute)(int* value, int attribute, int from, int to) {
    return api([&] {
        constexpr int kLastAttribute = 3;
        if (!value || attribute < 0 || attribute > kLastAttribute) {
            return kInvalidValue;
        }
        return from == to || from != 0 || to != 0 ? kInvalidDevice : kSuccess;
    });
}
/// There is no link from a device to itself.
HIP_SLOT(hipExtGetLinkTypeAndHopCount)(int from, int to, uint32_t* type, uint32_t* hops) {
    return api([&] {
        if (!type || !hops) {
            return kInvalidValue;
        }
        return from != 0 || to != 0 ? kInvalidDevice : kInvalidValue;
    });
}

HIP_SLOT(hipIpcGetMemHandle)(MemoryHandle* handle, void* pointer) {
    return api([&] { return make_handle(handle, pointer); });
}
/// As on ROCm, a process does not open its own handles.
HIP_SLOT(hipIpcOpenMemHandle)(void** pointer, MemoryHandle handle, unsigned) {
    return api([&] {
        if (!pointer) {
            return kInvalidValue;
        }
        if (handle.process == getpid()) {
            return kInvalidContext;
        }
        log_error("hipIpcOpenMemHandle: memory of another process is out of reach");
        return kNotSupported;
    });
}
HIP_SLOT(hipIpcCloseMemHandle)(void*) {
    return api([] { return kInvalidValue; });
}

}  // namespace asmevo::emulator::hip
