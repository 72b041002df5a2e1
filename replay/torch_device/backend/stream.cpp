#include "stream.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <mutex>

#include "device.h"

namespace asmevo::torch_device {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

constexpr unsigned kNonBlocking = 1;
constexpr unsigned kDisableTiming = 2;
constexpr size_t kPoolSize = 32;  // as torch's: more streams than this share the pool's

thread_local c10::StreamId t_stream = 0;

/// Streams of one priority, made when first asked for and never destroyed, as torch's.
struct StreamPool {
    std::mutex mutex;
    std::array<HipStream, kPoolSize> streams{};
    size_t next = 0;

    HipStream take(int priority) {
        std::lock_guard lock(mutex);
        HipStream& stream = streams[next++ % kPoolSize];
        if (!stream) {
            check(hip().hipStreamCreateWithPriority(&stream, kNonBlocking, priority),
                  "hipStreamCreateWithPriority");
        }
        return stream;
    }
};

class DeviceGuard final : public c10::impl::DeviceGuardImplInterface {
  public:
    DeviceType type() const override { return DeviceType::CUDA; }
    Device exchangeDevice(Device device) const override {
        check_device_index(device.index());
        return kDevice;
    }
    Device getDevice() const override { return kDevice; }
    void setDevice(Device device) const override { check_device_index(device.index()); }
    void uncheckedSetDevice(Device) const noexcept override {}
    DeviceIndex deviceCount() const noexcept override { return is_in_bad_fork() ? 0 : 1; }

    Stream getStream(Device) const override { return current_stream(); }
    Stream getDefaultStream(Device) const override { return Stream(Stream::DEFAULT, kDevice); }
    Stream getStreamFromGlobalPool(Device, bool is_high_priority) const override {
        return make_stream(is_high_priority ? -1 : 0);
    }
    Stream getNewStream(Device, int priority) const override { return make_stream(priority); }
    Stream exchangeStream(Stream stream) const override { return exchange_stream(stream); }
    void* getStreamNativeHandle(Stream stream) const override { return handle_of(stream); }
    bool queryStream(const Stream& stream) const override {
        return is_done(hip().hipStreamQuery(handle_of(stream)), "hipStreamQuery");
    }
    void synchronizeStream(const Stream& stream) const override {
        check(hip().hipStreamSynchronize(handle_of(stream)), "hipStreamSynchronize");
    }
    bool isStreamCapturing(const Stream& stream) const override {
        int status = 0;
        check(hip().hipStreamIsCapturing(handle_of(stream), &status), "hipStreamIsCapturing");
        return status != 0;
    }
    void synchronizeDevice(DeviceIndex) const override {
        check(hip().hipDeviceSynchronize(), "hipDeviceSynchronize");
    }

    void record(void** event, const Stream& stream, DeviceIndex,
                c10::EventFlag flag) const override {
        if (!*event) {
            const unsigned flags = flag == c10::EventFlag::BACKEND_DEFAULT ? 0 : kDisableTiming;
            check(hip().hipEventCreateWithFlags(event, flags), "hipEventCreateWithFlags");
        }
        check(hip().hipEventRecord(*event, handle_of(stream)), "hipEventRecord");
    }
    void block(void* event, const Stream& stream) const override {
        if (event) {
            check(hip().hipStreamWaitEvent(handle_of(stream), event, 0), "hipStreamWaitEvent");
        }
    }
    bool queryEvent(void* event) const override {
        return !event || is_done(hip().hipEventQuery(event), "hipEventQuery");
    }
    void synchronizeEvent(void* event) const override {
        if (event) {
            check(hip().hipEventSynchronize(event), "hipEventSynchronize");
        }
    }
    double elapsedTime(void* start, void* end, DeviceIndex) const override {
        float milliseconds = 0;
        check(hip().hipEventElapsedTime(&milliseconds, start, end), "hipEventElapsedTime");
        return milliseconds;
    }
    void destroyEvent(void* event, DeviceIndex) const noexcept override {
        if (event && !is_in_bad_fork()) {
            hip().hipEventDestroy(event);
        }
    }

  private:
    static bool is_done(int status, const char* what) {
        if (status == kHipErrorNotReady) {
            return false;
        }
        check(status, what);
        return true;
    }
};

}  // namespace

void register_guard() {
    c10::impl::registerDeviceGuard(DeviceType::CUDA, new DeviceGuard);
}

void check_device_index(int64_t index) {
    TORCH_CHECK(index == 0 || index == -1, "HIP error: invalid device ordinal (there is device 0 "
                "only, not ", index, ")");
}

Stream current_stream() noexcept {
    return Stream(Stream::UNSAFE, kDevice, t_stream);
}

Stream exchange_stream(Stream stream) {
    const Stream previous = current_stream();
    t_stream = stream.id();
    return previous;
}

Stream make_stream(int priority) {
    static auto& pools = *new std::array<StreamPool, 2>;
    HipStream stream = pools[priority < 0 ? 1 : 0].take(priority < 0 ? -1 : 0);
    return Stream(Stream::UNSAFE, kDevice, reinterpret_cast<intptr_t>(stream));
}

HipStream handle_of(const Stream& stream) noexcept {
    return reinterpret_cast<HipStream>(static_cast<intptr_t>(stream.id()));
}

bool is_capturing() {
    if (!handle_of(current_stream())) {
        return false;  // the null stream cannot be captured
    }
    int status = 0;
    check(hip().hipStreamIsCapturing(handle_of(current_stream()), &status), "hipStreamIsCapturing");
    return status != 0;
}

}  // namespace asmevo::torch_device
