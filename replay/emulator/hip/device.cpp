// Devices and contexts: there is one of each.
#include "hip/device.h"

#include <cstdio>
#include <cstring>
#include <mutex>

#include "hip/api.h"

namespace asmevo::emulator::hip {
namespace {

thread_local unsigned t_device_flags = 0;

template <typename Value>
Error give(Value* out, Value value) {
    return out ? (*out = value, kSuccess) : kInvalidValue;
}

Error check_device(int device) {
    return device == 0 ? kSuccess : kInvalidDevice;
}
Error check_context(const Context* context) {
    return !context || context == primary_context() ? kSuccess : kInvalidContext;
}

/// Limits that may be asked: stack, printf buffer, heap; and scratch (AMD only).
bool find_limit(int limit, size_t& out) {
    switch (limit) {
        case 0:
            out = 1024;
            return true;
        case 1:
            out = 1 << 20;
            return true;
        case 2:
            out = 8 << 20;
            return true;
        default:
            return false;
    }
}

}  // namespace

HIP_SLOT(hipInit)(unsigned flags) {
    return api([&] { return flags == 0 ? kSuccess : kInvalidValue; });
}
HIP_SLOT(hipGetDeviceCount)(int* count) {
    return api_always([&] { return give(count, 1); });
}
HIP_SLOT(hipGetDevice)(int* device) {
    return api_always([&] { return give(device, 0); });
}
HIP_SLOT(hipSetDevice)(int device) {
    return api_always([&] { return check_device(device); });
}
HIP_SLOT(hipSetValidDevices)(int*, int) {
    return api([] { return kSuccess; });
}
HIP_SLOT(hipDeviceGet)(int* device, int ordinal) {
    return api([&] { return ordinal == 0 ? give(device, 0) : kInvalidDevice; });
}
HIP_SLOT(hipDeviceSynchronize)() {
    return api([] { return kSuccess; });
}
HIP_SLOT(hipDeviceReset)() {
    return api_always([] {
        set_sticky_error(kSuccess);
        return kSuccess;
    });
}
HIP_SLOT(hipDeviceGetName)(char* name, int size, int device) {
    return api([&] {
        if (!name || size <= 0) {
            return kInvalidValue;
        }
        std::snprintf(name, static_cast<size_t>(size), "%s", chip().name);
        return check_device(device);
    });
}
HIP_SLOT(hipDeviceGetUuid)(char* uuid, int device) {
    return api([&] {
        if (!uuid) {
            return kInvalidValue;
        }
        std::memcpy(uuid, "asmevo-emulated0", 16);
        return check_device(device);
    });
}
HIP_SLOT(hipDeviceGetPCIBusId)(char* text, int size, int device) {
    return api([&] {
        if (!text || size <= 0) {
            return kInvalidValue;
        }
        std::snprintf(text, static_cast<size_t>(size), "0000:01:00.0");
        return check_device(device);
    });
}
HIP_SLOT(hipDeviceGetByPCIBusId)(int* device, const char* text) {
    return api([&] {
        return text && std::strcmp(text, "0000:01:00.0") == 0 ? give(device, 0) : kInvalidValue;
    });
}
HIP_SLOT(hipDeviceComputeCapability)(int* major, int* minor, int device) {
    return api([&] {
        if (!major || !minor) {
            return kInvalidValue;
        }
        *major = 9;
        *minor = chip().target == Target::kGfx90a ? 0 : chip().target == Target::kGfx942 ? 4 : 5;
        return check_device(device);
    });
}
HIP_SLOT(hipDeviceGetLimit)(size_t* value, int limit) {
    return api([&] {
        size_t known;
        return find_limit(limit, known) ? give(value, known) : kUnsupportedLimit;
    });
}
HIP_SLOT(hipDeviceSetLimit)(int limit, size_t) {
    return api([&] {
        size_t known;
        return find_limit(limit, known) ? kSuccess : kUnsupportedLimit;
    });
}
HIP_SLOT(hipDeviceGetStreamPriorityRange)(int* least, int* greatest) {
    return api([&] {
        if (least) {
            *least = 1;
        }
        if (greatest) {
            *greatest = -1;
        }
        return kSuccess;
    });
}
HIP_SLOT(hipDeviceGetCacheConfig)(int* config) {
    return api([&] { return give(config, 0); });
}
HIP_SLOT(hipDeviceSetCacheConfig)(int) {
    return api([] { return kSuccess; });
}
HIP_SLOT(hipDeviceGetSharedMemConfig)(int* config) {
    return api([&] { return give(config, 1); });  // four-byte banks
}
HIP_SLOT(hipDeviceSetSharedMemConfig)(int) {
    return api([] { return kSuccess; });
}
HIP_SLOT(hipSetDeviceFlags)(unsigned flags) {
    return api([&] { return t_device_flags = flags, kSuccess; });
}
HIP_SLOT(hipGetDeviceFlags)(unsigned* flags) {
    return api([&] { return give(flags, t_device_flags); });
}

HIP_SLOT(hipCtxCreate)(Context** context, unsigned, int device) {
    return api([&] { return device == 0 ? give(context, primary_context()) : kInvalidDevice; });
}
HIP_SLOT(hipCtxDestroy)(Context* context) {
    return api_always([&] { return context ? check_context(context) : kInvalidValue; });
}
HIP_SLOT(hipCtxGetCurrent)(Context** context) {
    return api([&] { return give(context, primary_context()); });
}
HIP_SLOT(hipCtxSetCurrent)(Context* context) {
    return api([&] { return check_context(context); });
}
HIP_SLOT(hipCtxPushCurrent)(Context* context) {
    return api([&] { return context ? check_context(context) : kInvalidContext; });
}
HIP_SLOT(hipCtxPopCurrent)(Context** context) {
    return api([&] { return context ? give(context, primary_context()) : kSuccess; });
}
HIP_SLOT(hipCtxGetDevice)(int* device) {
    return api([&] { return give(device, 0); });
}
HIP_SLOT(hipCtxGetApiVersion)(Context* context, unsigned* version) {
    return api(
        [&] { return check_context(context) == kSuccess ? give(version, 4u) : kInvalidContext; });
}
HIP_SLOT(hipCtxGetFlags)(unsigned* flags) {
    return api([&] { return give(flags, t_device_flags); });
}
HIP_SLOT(hipCtxSynchronize)() {
    return api([] { return kSuccess; });
}
HIP_SLOT(hipDevicePrimaryCtxRetain)(Context** context, int device) {
    return api([&] { return device == 0 ? give(context, primary_context()) : kInvalidDevice; });
}
HIP_SLOT(hipDevicePrimaryCtxRelease)(int device) {
    return api_always([&] { return check_device(device); });
}
HIP_SLOT(hipDevicePrimaryCtxReset)(int device) {
    return api_always([&] { return check_device(device); });
}
HIP_SLOT(hipDevicePrimaryCtxSetFlags)(int device, unsigned) {
    return api([&] { return check_device(device); });
}
HIP_SLOT(hipDevicePrimaryCtxGetState)(int device, unsigned* flags, int* active) {
    return api([&] {
        if (!flags || !active) {
            return kInvalidValue;
        }
        *flags = 0;
        *active = 1;
        return check_device(device);
    });
}

}  // namespace asmevo::emulator::hip
