// torch.profiler's view of the device: events in the streams, as a build with CUDA but without CUPTI
// has them.
#include "profiler.h"

#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "device.h"
#include "hip_runtime.h"
#include "stream.h"

namespace asmevo::torch_device {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

struct DeviceProfiler final : torch::profiler::impl::ProfilerStubs {
    void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event,
                int64_t* host_ns) const override {
        if (device) {
            *device = kDeviceIndex;
        }
        HipEvent made = nullptr;
        check(hip().hipEventCreateWithFlags(&made, 0), "hipEventCreateWithFlags");
        *event = ProfilerVoidEventStub(made, [](void* old) { hip().hipEventDestroy(old); });
        if (host_ns) {
            *host_ns = c10::getTime();
        }
        check(hip().hipEventRecord(made, handle_of(current_stream())), "hipEventRecord");
    }
    float elapsed(const ProfilerVoidEventStub* from, const ProfilerVoidEventStub* to) const override {
        float milliseconds = 0;
        check(hip().hipEventElapsedTime(&milliseconds, from->get(), to->get()),
              "hipEventElapsedTime");
        return milliseconds * 1000;  // torch counts microseconds
    }
    void mark(const char*) const override {}
    void rangePush(const char*) const override {}
    void rangePop() const override {}
    bool enabled() const override { return true; }
    void onEachDevice(std::function<void(int)> action) const override { action(kDeviceIndex); }
    void synchronize() const override {
        check(hip().hipDeviceSynchronize(), "hipDeviceSynchronize");
    }
};

}  // namespace

void register_profiler() {
    static auto& profiler = *new DeviceProfiler;
    torch::profiler::impl::registerCUDAMethods(&profiler);
}

}  // namespace asmevo::torch_device
