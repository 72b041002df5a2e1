#include "hooks.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <new>

#include "allocator.h"
#include "device.h"
#include "generator.h"
#include "hip_runtime.h"
#include "stream.h"

namespace asmevo::torch_device {
namespace {

struct DeviceHooks final : at::CUDAHooksInterface {
    DeviceHooks() = default;
    explicit DeviceHooks(at::CUDAHooksArgs) {}

    void init() const override { hip(); }
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return !is_in_bad_fork(); }
    bool hasCUDA() const override { return !is_in_bad_fork(); }
    bool hasROCM() const override { return true; }
    int getNumGPUs() const override { return deviceCount(); }
    c10::DeviceIndex deviceCount() const override { return is_in_bad_fork() ? 0 : 1; }
    bool hasPrimaryContext(c10::DeviceIndex index) const override {
        return index == 0 && is_hip_open();
    }

    c10::DeviceIndex current_device() const override { return 0; }
    c10::DeviceIndex getCurrentDevice() const override { return 0; }
    void setCurrentDevice(c10::DeviceIndex index) const override { check_device_index(index); }
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
        check_device_index(index);
        return 0;
    }
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
        return exchangeDevice(index);
    }
    void deviceSynchronize(c10::DeviceIndex) const override {
        check(hip().hipDeviceSynchronize(), "hipDeviceSynchronize");
    }

    const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
        check_device_index(index);
        return default_generator();
    }
    at::Generator getNewGenerator(c10::DeviceIndex index) const override {
        check_device_index(index);
        return make_generator();
    }

    at::Device getDeviceFromPtr(void*) const override { return kDevice; }
    bool isPinnedPtr(const void* address) const override { return is_pinned(address); }
    c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
    c10::Allocator* getCUDADeviceAllocator() const override { return device_allocator(); }

    std::string showConfig() const override { return "asmevo emulated device"; }
    int64_t cuFFTGetPlanCacheMaxSize(c10::DeviceIndex) const override { return 0; }
    void cuFFTSetPlanCacheMaxSize(c10::DeviceIndex, int64_t) const override {}
    int64_t cuFFTGetPlanCacheSize(c10::DeviceIndex) const override { return 0; }
    void cuFFTClearPlanCache(c10::DeviceIndex) const override {}
};

static_assert(sizeof(DeviceHooks) == sizeof(at::CUDAHooksInterface));

}  // namespace

void register_hooks() {
    at::CUDAHooksRegistry()->Register(
        "CUDAHooks", [](at::CUDAHooksArgs args) -> std::unique_ptr<at::CUDAHooksInterface> {
            return std::make_unique<DeviceHooks>(args);
        });
    const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
    if (!dynamic_cast<const DeviceHooks*>(&hooks)) {
        // Torch made its default hooks before this library was loaded and keeps them for good. Neither
        // class has data, so ours takes the same object's place.
        new (const_cast<at::CUDAHooksInterface*>(&hooks)) DeviceHooks;
    }
}

}  // namespace asmevo::torch_device
