// Copies and fills. They run at once in the calling thread, on checked device ranges.
#include "hip/copy.h"

#include <cstring>

#include "hip/api.h"
#include "hip/copy_params.h"
#include "hip/stream.h"
#include "memory/address_space.h"
#include "memory/arena.h"

namespace asmevo::emulator::hip {
namespace {

Error copy(void* to, const void* from, uint64_t size) {
    if (size == 0) {
        return kSuccess;
    }
    if (!is_copyable(to, size) || !is_copyable(from, size)) {
        return kInvalidValue;
    }
    std::memmove(to, from, size);
    return kSuccess;
}

/// hipMemcpy's kinds; the direction itself follows from the pointers.
Error copy_kind(void* to, const void* from, uint64_t size, int kind) {
    const bool is_known = (kind >= kHostToHost && kind <= kDefaultCopy) || kind == kNoCuCopy;
    return is_known ? copy(to, from, size) : kInvalidMemcpyDirection;
}

/// Goes the stream's way. What is wrong whatever the memory is refused at once.
Error copy_on(const Stream* stream, const Copy3D& params) {
    return api([&] {
        const Error error = check_copy(params);
        return error == kSuccess ? submit(stream, CopyOperation{params}) : error;
    });
}

Error fill_on(const Stream* stream, const FillBox& params) {
    return api([&] {
        const Error error = check_fill(params);
        return error == kSuccess ? submit(stream, FillOperation{params}) : error;
    });
}

template <typename Value>
FillBox linear_fill(void* to, Value value, size_t count) {
    return {Fill{static_cast<char*>(to), sizeof value, 1, count * sizeof value,
                 static_cast<unsigned>(value), count}};
}

FillBox pitched_fill(void* to, size_t pitch, unsigned value, unsigned element_size, size_t width,
                     size_t height) {
    return {Fill{static_cast<char*>(to), element_size, height, pitch, value, width}};
}

Error fill_now(const FillBox& fill) {
    return api([&] { return run_fill(fill); });
}

}  // namespace

bool is_copyable(const void* pointer, uint64_t size) {
    const uint64_t address = reinterpret_cast<uint64_t>(pointer);
    uint64_t begin, end;
    if (address == 0 || address + size < address) {
        return false;
    }
    if (!Arena::get().next(address, begin, end) || begin >= address + size) {
        return true;
    }
    MemoryRange range;
    return AddressSpace::get().find(address, size, range) &&
           range.kind != MemoryKind::kPageableHost;
}

HIP_SLOT(hipMemcpy)(void* to, const void* from, size_t size, int kind) {
    return api([&] { return copy_kind(to, from, size, kind); });
}
HIP_SLOT(hipMemcpyAsync)(void* to, const void* from, size_t size, int kind, Stream* stream) {
    return copy_on(stream, linear_copy(to, from, size, kind));
}
HIP_SLOT(hipMemcpyWithStream)(void* to, const void* from, size_t size, int kind, Stream* stream) {
    return copy_on(stream, linear_copy(to, from, size, kind));
}
HIP_SLOT(hipMemcpy_spt)(void* to, const void* from, size_t size, int kind) {
    return slot_hipMemcpy(to, from, size, kind);
}
HIP_SLOT(hipMemcpyAsync_spt)(void* to, const void* from, size_t size, int kind, Stream* stream) {
    return slot_hipMemcpyAsync(to, from, size, kind, stream);
}
HIP_SLOT(hipMemcpyHtoD)(void* to, const void* from, size_t size) {
    return api([&] { return copy(to, from, size); });
}
HIP_SLOT(hipMemcpyDtoH)(void* to, void* from, size_t size) {
    return api([&] { return copy(to, from, size); });
}
HIP_SLOT(hipMemcpyDtoD)(void* to, void* from, size_t size) {
    return api([&] { return copy(to, from, size); });
}
HIP_SLOT(hipMemcpyHtoDAsync)(void* to, const void* from, size_t size, Stream* stream) {
    return copy_on(stream, linear_copy(to, from, size, kHostToDevice));
}
HIP_SLOT(hipMemcpyDtoHAsync)(void* to, void* from, size_t size, Stream* stream) {
    return copy_on(stream, linear_copy(to, from, size, kDeviceToHost));
}
HIP_SLOT(hipMemcpyDtoDAsync)(void* to, void* from, size_t size, Stream* stream) {
    return copy_on(stream, linear_copy(to, from, size, kDeviceToDevice));
}
HIP_SLOT(hipMemcpyPeer)(void* to, int to_device, const void* from, int from_device, size_t size) {
    return api(
        [&] { return to_device == 0 && from_device == 0 ? copy(to, from, size) : kInvalidDevice; });
}
HIP_SLOT(hipMemcpyPeerAsync)(void* to, int to_device, const void* from, int from_device,
                             size_t size, Stream* stream) {
    return to_device == 0 && from_device == 0
               ? copy_on(stream, linear_copy(to, from, size, kDeviceToDevice))
               : record(kInvalidDevice);
}
HIP_SLOT(hipMemcpy2D)(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                      size_t height, int kind) {
    return api(
        [&] { return run_copy(pitched_copy(to, to_pitch, from, from_pitch, width, height, kind)); });
}
HIP_SLOT(hipMemcpy2DAsync)(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                           size_t width, size_t height, int kind, Stream* stream) {
    return copy_on(stream, pitched_copy(to, to_pitch, from, from_pitch, width, height, kind));
}
HIP_SLOT(hipMemcpy2D_spt)(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                          size_t width, size_t height, int kind) {
    return slot_hipMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
HIP_SLOT(hipMemcpy2DAsync_spt)(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                               size_t width, size_t height, int kind, Stream* stream) {
    return slot_hipMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, stream);
}

HIP_SLOT(hipMemset)(void* to, int value, size_t size) {
    return fill_now(linear_fill(to, static_cast<uint8_t>(value), size));
}
HIP_SLOT(hipMemsetAsync)(void* to, int value, size_t size, Stream* stream) {
    return fill_on(stream, linear_fill(to, static_cast<uint8_t>(value), size));
}
HIP_SLOT(hipMemset_spt)(void* to, int value, size_t size) {
    return slot_hipMemset(to, value, size);
}
HIP_SLOT(hipMemsetAsync_spt)(void* to, int value, size_t size, Stream* stream) {
    return slot_hipMemsetAsync(to, value, size, stream);
}
HIP_SLOT(hipMemsetD8)(void* to, uint8_t value, size_t count) {
    return fill_now(linear_fill(to, value, count));
}
HIP_SLOT(hipMemsetD8Async)(void* to, uint8_t value, size_t count, Stream* stream) {
    return fill_on(stream, linear_fill(to, value, count));
}
HIP_SLOT(hipMemsetD16)(void* to, uint16_t value, size_t count) {
    return fill_now(linear_fill(to, value, count));
}
HIP_SLOT(hipMemsetD16Async)(void* to, uint16_t value, size_t count, Stream* stream) {
    return fill_on(stream, linear_fill(to, value, count));
}
HIP_SLOT(hipMemsetD32)(void* to, int value, size_t count) {
    return fill_now(linear_fill(to, value, count));
}
HIP_SLOT(hipMemsetD32Async)(void* to, int value, size_t count, Stream* stream) {
    return fill_on(stream, linear_fill(to, value, count));
}
HIP_SLOT(hipMemset2D)(void* to, size_t pitch, int value, size_t width, size_t height) {
    return fill_now(pitched_fill(to, pitch, static_cast<unsigned>(value), 1, width, height));
}
HIP_SLOT(hipMemset2DAsync)(void* to, size_t pitch, int value, size_t width, size_t height,
                           Stream* stream) {
    return fill_on(stream, pitched_fill(to, pitch, static_cast<unsigned>(value), 1, width, height));
}
HIP_SLOT(hipMemset2D_spt)(void* to, size_t pitch, int value, size_t width, size_t height) {
    return slot_hipMemset2D(to, pitch, value, width, height);
}
HIP_SLOT(hipMemset2DAsync_spt)(void* to, size_t pitch, int value, size_t width, size_t height,
                               Stream* stream) {
    return slot_hipMemset2DAsync(to, pitch, value, width, height, stream);
}
HIP_SLOT(hipMemsetD2D8)(void* to, size_t pitch, uint8_t value, size_t width, size_t height) {
    return fill_now(pitched_fill(to, pitch, value, 1, width, height));
}
HIP_SLOT(hipMemsetD2D8Async)(void* to, size_t pitch, uint8_t value, size_t width, size_t height,
                             Stream* stream) {
    return fill_on(stream, pitched_fill(to, pitch, value, 1, width, height));
}
HIP_SLOT(hipMemsetD2D16)(void* to, size_t pitch, uint16_t value, size_t width, size_t height) {
    return fill_now(pitched_fill(to, pitch, value, 2, width, height));
}
HIP_SLOT(hipMemsetD2D16Async)(void* to, size_t pitch, uint16_t value, size_t width, size_t height,
                              Stream* stream) {
    return fill_on(stream, pitched_fill(to, pitch, value, 2, width, height));
}
HIP_SLOT(hipMemsetD2D32)(void* to, size_t pitch, unsigned value, size_t width, size_t height) {
    return fill_now(pitched_fill(to, pitch, value, 4, width, height));
}
HIP_SLOT(hipMemsetD2D32Async)(void* to, size_t pitch, unsigned value, size_t width, size_t height,
                              Stream* stream) {
    return fill_on(stream, pitched_fill(to, pitch, value, 4, width, height));
}

}  // namespace asmevo::emulator::hip
