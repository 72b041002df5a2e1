// Copies and fills. They run at once in the calling thread, on checked device ranges.
#include "hip/copy.h"

#include <cstring>

#include "hip/api.h"
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

Error copy_kind(void* to, const void* from, uint64_t size, int kind) {
    const bool is_known = (kind >= kHostToHost && kind <= kDefaultCopy) || kind == kNoCuCopy;
    return is_known ? copy(to, from, size) : kInvalidMemcpyDirection;
}

/// Bytes from the first to the last touched byte of `rows` rows; false on overflow.
bool pitched_extent(uint64_t pitch, uint64_t width, uint64_t rows, uint64_t& out) {
    uint64_t body;
    return !__builtin_mul_overflow(pitch, rows - 1, &body) &&
           !__builtin_add_overflow(body, width, &out);
}

Error copy_rows(void* to, uint64_t to_pitch, const void* from, uint64_t from_pitch, uint64_t width,
                uint64_t height, int kind) {
    if (kind < kHostToHost || kind > kDefaultCopy) {
        return kInvalidMemcpyDirection;
    }
    if (width == 0 || height == 0) {
        return kSuccess;
    }
    uint64_t to_size, from_size;
    if (width > to_pitch || width > from_pitch ||
        !pitched_extent(to_pitch, width, height, to_size) ||
        !pitched_extent(from_pitch, width, height, from_size) || !is_copyable(to, to_size) ||
        !is_copyable(from, from_size)) {
        return kInvalidValue;
    }
    for (uint64_t row = 0; row < height; ++row) {
        std::memmove(static_cast<char*>(to) + row * to_pitch,
                     static_cast<const char*>(from) + row * from_pitch, width);
    }
    return kSuccess;
}

template <typename Value>
Error fill(void* to, Value value, uint64_t count) {
    uint64_t size;
    if (count == 0) {
        return kSuccess;
    }
    if (__builtin_mul_overflow(count, sizeof value, &size) || !is_copyable(to, size)) {
        return kInvalidValue;
    }
    if constexpr (sizeof value == 1) {
        std::memset(to, value, size);
    } else {
        for (uint64_t i = 0; i < count; ++i) {
            std::memcpy(static_cast<char*>(to) + i * sizeof value, &value, sizeof value);
        }
    }
    return kSuccess;
}

Error fill_rows(void* to, uint64_t pitch, int value, uint64_t width, uint64_t height) {
    if (width == 0 || height == 0) {
        return kSuccess;
    }
    uint64_t size;
    if (width > pitch || !pitched_extent(pitch, width, height, size) || !is_copyable(to, size)) {
        return kInvalidValue;
    }
    for (uint64_t row = 0; row < height; ++row) {
        std::memset(static_cast<char*>(to) + row * pitch, value, width);
    }
    return kSuccess;
}

/// An asynchronous form: goes the stream's way.
template <typename Body>
Error copy_on(const Stream* stream, Body body) {
    return api([&] { return submit(stream, NodeType::kCopy, body); });
}
template <typename Body>
Error fill_on(const Stream* stream, Body body) {
    return api([&] { return submit(stream, NodeType::kFill, body); });
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
    return copy_on(stream, [=] { return copy_kind(to, from, size, kind); });
}
HIP_SLOT(hipMemcpyWithStream)(void* to, const void* from, size_t size, int kind, Stream* stream) {
    return copy_on(stream, [=] { return copy_kind(to, from, size, kind); });
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
    return copy_on(stream, [=] { return copy(to, from, size); });
}
HIP_SLOT(hipMemcpyDtoHAsync)(void* to, void* from, size_t size, Stream* stream) {
    return copy_on(stream, [=] { return copy(to, from, size); });
}
HIP_SLOT(hipMemcpyDtoDAsync)(void* to, void* from, size_t size, Stream* stream) {
    return copy_on(stream, [=] { return copy(to, from, size); });
}
HIP_SLOT(hipMemcpyPeer)(void* to, int to_device, const void* from, int from_device, size_t size) {
    return api(
        [&] { return to_device == 0 && from_device == 0 ? copy(to, from, size) : kInvalidDevice; });
}
HIP_SLOT(hipMemcpyPeerAsync)(void* to, int to_device, const void* from, int from_device,
                             size_t size, Stream* stream) {
    return copy_on(stream, [=] {
        return to_device == 0 && from_device == 0 ? copy(to, from, size) : kInvalidDevice;
    });
}
HIP_SLOT(hipMemcpy2D)(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                      size_t height, int kind) {
    return api([&] { return copy_rows(to, to_pitch, from, from_pitch, width, height, kind); });
}
HIP_SLOT(hipMemcpy2DAsync)(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                           size_t width, size_t height, int kind, Stream* stream) {
    return copy_on(stream,
                   [=] { return copy_rows(to, to_pitch, from, from_pitch, width, height, kind); });
}

HIP_SLOT(hipMemset)(void* to, int value, size_t size) {
    return api([&] { return fill(to, static_cast<uint8_t>(value), size); });
}
HIP_SLOT(hipMemsetAsync)(void* to, int value, size_t size, Stream* stream) {
    return fill_on(stream, [=] { return fill(to, static_cast<uint8_t>(value), size); });
}
HIP_SLOT(hipMemset_spt)(void* to, int value, size_t size) {
    return slot_hipMemset(to, value, size);
}
HIP_SLOT(hipMemsetAsync_spt)(void* to, int value, size_t size, Stream* stream) {
    return slot_hipMemsetAsync(to, value, size, stream);
}
HIP_SLOT(hipMemsetD8)(void* to, uint8_t value, size_t count) {
    return api([&] { return fill(to, value, count); });
}
HIP_SLOT(hipMemsetD8Async)(void* to, uint8_t value, size_t count, Stream* stream) {
    return fill_on(stream, [=] { return fill(to, value, count); });
}
HIP_SLOT(hipMemsetD16)(void* to, uint16_t value, size_t count) {
    return api([&] { return fill(to, value, count); });
}
HIP_SLOT(hipMemsetD16Async)(void* to, uint16_t value, size_t count, Stream* stream) {
    return fill_on(stream, [=] { return fill(to, value, count); });
}
HIP_SLOT(hipMemsetD32)(void* to, int value, size_t count) {
    return api([&] { return fill(to, value, count); });
}
HIP_SLOT(hipMemsetD32Async)(void* to, int value, size_t count, Stream* stream) {
    return fill_on(stream, [=] { return fill(to, value, count); });
}
HIP_SLOT(hipMemset2D)(void* to, size_t pitch, int value, size_t width, size_t height) {
    return api([&] { return fill_rows(to, pitch, value, width, height); });
}
HIP_SLOT(hipMemset2DAsync)(void* to, size_t pitch, int value, size_t width, size_t height,
                           Stream* stream) {
    return fill_on(stream, [=] { return fill_rows(to, pitch, value, width, height); });
}

}  // namespace asmevo::emulator::hip
