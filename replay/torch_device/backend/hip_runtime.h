// The emulated device's libamdhip64.so, opened when torch first touches the device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asmevo::torch_device {

using HipStream = void*;
using HipEvent = void*;

constexpr int kHipSuccess = 0;
constexpr int kHipErrorOutOfMemory = 2;
constexpr int kHipErrorNotReady = 600;
constexpr int kHipErrorStreamCaptureUnsupported = 900;

/// The entry points that the backend calls; the numbering of the flags is HIP's ABI.
struct HipRuntime {
    int (*hipInit)(unsigned);
    int (*hipMalloc)(void**, size_t);
    int (*hipFree)(void*);
    int (*hipHostMalloc)(void**, size_t, unsigned);
    int (*hipHostFree)(void*);
    int (*hipMemGetInfo)(size_t*, size_t*);
    int (*hipMemcpyAsync)(void*, const void*, size_t, int, HipStream);
    int (*hipDeviceSynchronize)();
    int (*hipStreamCreateWithPriority)(HipStream*, unsigned, int);
    int (*hipStreamQuery)(HipStream);
    int (*hipStreamSynchronize)(HipStream);
    int (*hipStreamWaitEvent)(HipStream, HipEvent, unsigned);
    int (*hipStreamIsCapturing)(HipStream, int*);
    int (*hipLaunchHostFunc)(HipStream, void (*)(void*), void*);
    int (*hipEventCreateWithFlags)(HipEvent*, unsigned);
    int (*hipEventDestroy)(HipEvent);
    int (*hipEventRecord)(HipEvent, HipStream);
    int (*hipEventQuery)(HipEvent);
    int (*hipEventSynchronize)(HipEvent);
    int (*hipEventElapsedTime)(float*, HipEvent, HipEvent);
    const char* (*hipGetErrorString)(int);
    int (*hipGetLastError)();
};

/// Names the library; it is opened by the first call of `hip`.
void set_hip_library(const char* path);

/// The opened library. Throws where it cannot be opened, and in a child that was forked after it was.
const HipRuntime& hip();

/// Whether this process has opened the library.
bool is_hip_open() noexcept;

/// Whether this process was forked from one that had opened the library.
bool is_in_bad_fork() noexcept;

/// Throws torch's AcceleratorError for a status other than success.
void check(int status, const char* what);

/// Throws what an earlier launch left behind: an operation on the host must not read its results.
void check_device();

}  // namespace asmevo::torch_device
