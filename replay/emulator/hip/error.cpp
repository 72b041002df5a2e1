// Error state, names and texts of errors, and the functions behind empty slots.
#include <atomic>

#include "hip/api.h"
#include "hip/log.h"

namespace asmevo::emulator::hip {
namespace {

std::atomic<int> g_sticky{kSuccess};
thread_local Error t_last = kSuccess;

struct ErrorText {
    Error error;
    const char* name;
    const char* text;
};

constexpr ErrorText kErrors[] = {
    {kSuccess, "hipSuccess", "no error"},
    {kInvalidValue, "hipErrorInvalidValue", "invalid argument"},
    {kOutOfMemory, "hipErrorOutOfMemory", "out of memory"},
    {kInvalidConfiguration, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {kInvalidSymbol, "hipErrorInvalidSymbol", "invalid device symbol"},
    {kInvalidMemcpyDirection, "hipErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {kInvalidDeviceFunction, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {kInvalidDevice, "hipErrorInvalidDevice", "invalid device ordinal"},
    {kInvalidImage, "hipErrorInvalidImage", "device kernel image is invalid"},
    {kInvalidContext, "hipErrorInvalidContext", "invalid device context"},
    {kMapFailed, "hipErrorMapFailed", "mapping of buffer object failed"},
    {kNoBinaryForGpu, "hipErrorNoBinaryForGpu",
     "no kernel image is available for execution on the device"},
    {kUnsupportedLimit, "hipErrorUnsupportedLimit", "limit is not supported on this architecture"},
    {kFileNotFound, "hipErrorFileNotFound", "file not found"},
    {kOperatingSystem, "hipErrorOperatingSystem", "OS call failed or operation not supported on this OS"},
    {kInvalidHandle, "hipErrorInvalidHandle", "invalid resource handle"},
    {kIllegalState, "hipErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {kNotFound, "hipErrorNotFound", "named symbol not found"},
    {kNotReady, "hipErrorNotReady", "device not ready"},
    {kLaunchOutOfResources, "hipErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {kPeerAccessAlreadyEnabled, "hipErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {kAssert, "hipErrorAssert", "device-side assert triggered"},
    {kHostMemoryAlreadyRegistered, "hipErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {kHostMemoryNotRegistered, "hipErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {kLaunchFailure, "hipErrorLaunchFailure", "unspecified launch failure"},
    {kCooperativeLaunchTooLarge, "hipErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
    {kNotSupported, "hipErrorNotSupported", "operation not supported"},
    {kStreamCaptureUnsupported, "hipErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {kStreamCaptureInvalidated, "hipErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {kStreamCaptureMerge, "hipErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {kStreamCaptureUnmatched, "hipErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {kStreamCaptureUnjoined, "hipErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {kStreamCaptureIsolation, "hipErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {kStreamCaptureImplicit, "hipErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {kCapturedEvent, "hipErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {kStreamCaptureWrongThread, "hipErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {kGraphExecUpdateFailure, "hipErrorGraphExecUpdateFailure",
     "the graph update was not performed because it included changes which violated constraints "
     "specific to instantiated graph update"},
    {kUnknown, "hipErrorUnknown", "unknown error"},
};

const ErrorText& find_text(int error) {
    for (const ErrorText& entry : kErrors) {
        if (entry.error == error) {
            return entry;
        }
    }
    static constexpr ErrorText unknown{kUnknown, "hipErrorUnknown", "unknown error"};
    return unknown;
}

constexpr const char* kRuntimeNames[] = {
#define SLOT(index, name) #name,
#include "hip/runtime_slots.inc"
#undef SLOT
};
constexpr const char* kCompilerNames[] = {
#define SLOT(index, name) #name,
#include "hip/compiler_slots.inc"
#undef SLOT
};
static_assert(sizeof kRuntimeNames / sizeof *kRuntimeNames == 517);

}  // namespace

Error record(Error error) {
    if (error != kSuccess && error != kNotReady) {
        t_last = error;
    }
    return error;
}

Error sticky_error() {
    return static_cast<Error>(g_sticky.load(std::memory_order_relaxed));
}
void set_sticky_error(Error error) {
    g_sticky.store(error, std::memory_order_relaxed);
}

extern "C" __attribute__((visibility("hidden"))) Error asmevo_hip_unsupported_slot(uint32_t index) {
    log_error("%s (slot %u of the HIP dispatch table) is not supported", kRuntimeNames[index],
              index);
    return record(kNotSupported);
}

extern "C" __attribute__((visibility("hidden"))) Error
asmevo_hip_unsupported_compiler_slot(uint32_t index) {
    log_error("%s (slot %u of the HIP compiler dispatch table) is not supported",
              kCompilerNames[index], index);
    return record(kNotSupported);
}

HIP_SLOT(hipGetLastError)() {
    Error last = t_last;
    t_last = kSuccess;
    Error sticky = sticky_error();
    return sticky != kSuccess ? sticky : last;
}

HIP_SLOT(hipExtGetLastError)() {
    return slot_hipGetLastError();
}

HIP_SLOT(hipPeekAtLastError)() {
    Error sticky = sticky_error();
    return sticky != kSuccess ? sticky : t_last;
}

HIP_SLOT_RETURNING(const char*, hipGetErrorName)(int error) {
    return find_text(error).name;
}
HIP_SLOT_RETURNING(const char*, hipGetErrorString)(int error) {
    return find_text(error).text;
}

HIP_SLOT(hipDrvGetErrorName)(int error, const char** out) {
    return api_always([&] {
        if (!out) {
            return kInvalidValue;
        }
        *out = find_text(error).name;
        return kSuccess;
    });
}

HIP_SLOT(hipDrvGetErrorString)(int error, const char** out) {
    return api_always([&] {
        if (!out) {
            return kInvalidValue;
        }
        *out = find_text(error).text;
        return kSuccess;
    });
}

HIP_SLOT_RETURNING(const char*, hipApiName)(uint32_t id) {
    return id < sizeof kRuntimeNames / sizeof *kRuntimeNames ? kRuntimeNames[id] : "unknown";
}

}  // namespace asmevo::emulator::hip
