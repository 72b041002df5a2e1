#include "hip_runtime.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <string>

namespace asmevo::torch_device {
namespace {

std::string g_library = "libamdhip64.so";
std::atomic<bool> g_is_open{false};
std::atomic<bool> g_in_bad_fork{false};

template <typename Function>
void find(void* library, Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    TORCH_CHECK(function, "the emulated device's library has no ", name);
}

HipRuntime open_library() {
    void* library = dlopen(g_library.c_str(), RTLD_NOW | RTLD_LOCAL);
    TORCH_CHECK(library, "the emulated device's library cannot be opened: ", dlerror());
    HipRuntime runtime{};
#define FIND(name) find(library, runtime.name, #name)
    FIND(hipInit);
    FIND(hipMalloc);
    FIND(hipFree);
    FIND(hipHostMalloc);
    FIND(hipHostFree);
    FIND(hipMemGetInfo);
    FIND(hipMemcpyAsync);
    FIND(hipDeviceSynchronize);
    FIND(hipStreamCreateWithPriority);
    FIND(hipStreamQuery);
    FIND(hipStreamSynchronize);
    FIND(hipStreamWaitEvent);
    FIND(hipStreamIsCapturing);
    FIND(hipLaunchHostFunc);
    FIND(hipEventCreateWithFlags);
    FIND(hipEventDestroy);
    FIND(hipEventRecord);
    FIND(hipEventQuery);
    FIND(hipEventSynchronize);
    FIND(hipEventElapsedTime);
    FIND(hipGetErrorString);
    FIND(hipGetLastError);
#undef FIND
    // As with a real runtime, a child that is forked from here on has no device.
    pthread_atfork(nullptr, nullptr, [] { g_in_bad_fork = true; });
    g_is_open = true;
    return runtime;
}

}  // namespace

void set_hip_library(const char* path) {
    g_library = path;
}

const HipRuntime& hip() {
    TORCH_CHECK(!g_in_bad_fork,
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
                "you must use the 'spawn' start method");
    static const HipRuntime runtime = open_library();
    return runtime;
}

bool is_hip_open() noexcept {
    return g_is_open;
}

bool is_in_bad_fork() noexcept {
    return g_in_bad_fork;
}

void check(int status, const char* what) {
    if (status == kHipSuccess) {
        return;
    }
    throw c10::AcceleratorError(
        {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, status,
        c10::str("HIP error: ", hip().hipGetErrorString(status), " (", status, ", from ", what, ")"));
}

void check_device() {
    // Any call returns it. This one neither waits nor disturbs a capture: launches are synchronous.
    check(hip().hipInit(0), "an earlier launch");
}

}  // namespace asmevo::torch_device
