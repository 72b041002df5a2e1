#include "allocator.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <map>
#include <mutex>
#include <unordered_map>

#include "device.h"
#include "graph_capture.h"
#include "hip_runtime.h"

namespace asmevo::torch_device {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::Stat;
using c10::CachingDeviceAllocator::StatType;

/// No caching: an allocation that ends where its tensor ends lets the device find accesses beyond.
class HipAllocator final : public c10::DeviceAllocator {
  public:
    c10::DataPtr allocate(size_t size_bytes) override;
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, size_t size_bytes) const override {
        default_copy_data(to, from, size_bytes);  // the host reaches the device's memory
    }
    bool initialized() override { return is_hip_open(); }
    void emptyCache(c10::MempoolId_t) override {}
    void recordStream(const c10::DataPtr&, c10::Stream) override {}
    DeviceStats getDeviceStats(c10::DeviceIndex) override;
    void resetAccumulatedStats(c10::DeviceIndex) override;
    void resetPeakStats(c10::DeviceIndex) override;
    std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override;

    static void free_now(void* address);

  private:
    static void release(void* address);
    template <typename Action>
    void for_each_stat(Action action);

    std::mutex mutex_;
    std::unordered_map<void*, size_t> sizes_;
    DeviceStats stats_;
};

HipAllocator& allocator() {
    static auto& instance = *new HipAllocator;  // tensors outlive static destructors
    return instance;
}

constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);

template <typename Action>
void HipAllocator::for_each_stat(Action action) {
    for (auto* counts : {&stats_.allocation, &stats_.segment, &stats_.active}) {
        action((*counts)[kAll], true);
    }
    for (auto* bytes : {&stats_.allocated_bytes, &stats_.reserved_bytes, &stats_.active_bytes,
                        &stats_.requested_bytes}) {
        action((*bytes)[kAll], false);
    }
}

c10::DataPtr HipAllocator::allocate(size_t size_bytes) {
    void* address = nullptr;
    if (size_bytes > 0) {
        const int status = hip().hipMalloc(&address, size_bytes);
        if (status == kHipErrorOutOfMemory) {
            hip().hipGetLastError();
            size_t free_bytes = 0;
            size_t total_bytes = 0;
            hip().hipMemGetInfo(&free_bytes, &total_bytes);
            std::lock_guard lock(mutex_);
            stats_.num_ooms++;
            TORCH_CHECK_WITH(OutOfMemoryError, false, "HIP out of memory. Tried to allocate ",
                             size_bytes, " bytes. GPU 0 has a total capacity of ", total_bytes,
                             " bytes of which ", free_bytes, " bytes are free.");
        }
        check(status, "hipMalloc");
        note_allocation(address);
        std::lock_guard lock(mutex_);
        sizes_[address] = size_bytes;
        stats_.num_device_alloc++;
        for_each_stat([&](Stat& stat, bool is_count) { stat.increase(is_count ? 1 : size_bytes); });
    }
    return {address, address, &release, kDevice};
}

void HipAllocator::release(void* address) {
    // In a forked child the memory belongs to the parent.
    if (!address || is_in_bad_fork() || is_kept_by_graph(address)) {
        return;
    }
    free_now(address);
}

void HipAllocator::free_now(void* address) {
    HipAllocator& self = allocator();
    {
        std::lock_guard lock(self.mutex_);
        const auto found = self.sizes_.find(address);
        if (found != self.sizes_.end()) {
            const size_t size_bytes = found->second;
            self.sizes_.erase(found);
            self.stats_.num_device_free++;
            self.for_each_stat(
                [&](Stat& stat, bool is_count) { stat.decrease(is_count ? 1 : size_bytes); });
        }
    }
    hip().hipFree(address);
}

DeviceStats HipAllocator::getDeviceStats(c10::DeviceIndex) {
    std::lock_guard lock(mutex_);
    return stats_;
}

void HipAllocator::resetAccumulatedStats(c10::DeviceIndex) {
    std::lock_guard lock(mutex_);
    for_each_stat([](Stat& stat, bool) { stat.reset_accumulated(); });
    stats_.num_ooms = stats_.num_device_alloc = stats_.num_device_free = 0;
}

void HipAllocator::resetPeakStats(c10::DeviceIndex) {
    std::lock_guard lock(mutex_);
    for_each_stat([](Stat& stat, bool) { stat.reset_peak(); });
}

std::pair<size_t, size_t> HipAllocator::getMemoryInfo(c10::DeviceIndex) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    check(hip().hipMemGetInfo(&free_bytes, &total_bytes), "hipMemGetInfo");
    return {free_bytes, total_bytes};
}

/// Page-locked host memory, which the device reaches also where it is discrete.
class PinnedAllocator final : public c10::Allocator {
  public:
    c10::DataPtr allocate(size_t size_bytes) override {
        void* address = nullptr;
        if (size_bytes > 0) {
            check(hip().hipHostMalloc(&address, size_bytes, 0), "hipHostMalloc");
            std::lock_guard lock(mutex_);
            sizes_[reinterpret_cast<uintptr_t>(address)] = size_bytes;
        }
        return {address, address, &release, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, size_t size_bytes) const override {
        default_copy_data(to, from, size_bytes);
    }
    bool contains(const void* address) {
        std::lock_guard lock(mutex_);
        const auto key = reinterpret_cast<uintptr_t>(address);
        const auto after = sizes_.upper_bound(key);
        if (after == sizes_.begin()) {
            return false;
        }
        const auto& [base, size_bytes] = *std::prev(after);
        return key - base < size_bytes;
    }

  private:
    static void release(void* address);

    std::mutex mutex_;
    std::map<uintptr_t, size_t> sizes_;
};

PinnedAllocator& pinned() {
    static auto& instance = *new PinnedAllocator;
    return instance;
}

void PinnedAllocator::release(void* address) {
    if (!address || is_in_bad_fork()) {
        return;
    }
    {
        std::lock_guard lock(pinned().mutex_);
        pinned().sizes_.erase(reinterpret_cast<uintptr_t>(address));
    }
    hip().hipHostFree(address);
}

}  // namespace

void register_allocator() {
    c10::SetAllocator(c10::DeviceType::CUDA, &allocator());
}

c10::Allocator* device_allocator() {
    return &allocator();
}

void free_device_memory(void* address) {
    HipAllocator::free_now(address);
}

c10::Allocator* pinned_allocator() {
    return &pinned();
}

bool is_pinned(const void* address) {
    return pinned().contains(address);
}

}  // namespace asmevo::torch_device
