#include "hip/copy_params.h"

#include <cstring>

#include "hip/copy.h"

namespace asmevo::emulator::hip {
namespace {

bool is_empty(const Extent& extent) {
    return extent.width == 0 || extent.height == 0 || extent.depth == 0;
}

/// The first byte of a box, and the bytes from there to its last one; false when the box does not
/// fit its pitch.
bool locate(const PitchedPointer& memory, const Position& at, const Extent& extent, char*& start,
            uint64_t& size) {
    uint64_t slice, offset, rows, last;
    if (!memory.pointer || at.x > memory.pitch || extent.width > memory.pitch - at.x ||
        __builtin_mul_overflow(memory.pitch, memory.height, &slice) ||
        __builtin_mul_overflow(slice, at.z, &offset) ||
        __builtin_mul_overflow(memory.pitch, at.y, &rows) ||
        __builtin_add_overflow(offset, rows, &offset) ||
        __builtin_add_overflow(offset, at.x, &offset) ||
        __builtin_mul_overflow(slice, extent.depth - 1, &last) ||
        __builtin_mul_overflow(memory.pitch, extent.height - 1, &rows) ||
        __builtin_add_overflow(last, rows, &last)) {
        return false;
    }
    start = memory.pointer + offset;
    return !__builtin_add_overflow(last, extent.width, &size);
}

void fill_row(char* to, unsigned value, unsigned element_size, size_t count) {
    if (element_size == 1) {
        std::memset(to, static_cast<uint8_t>(value), count);
        return;
    }
    for (size_t i = 0; i < count; ++i) {
        std::memcpy(to + i * element_size, &value, element_size);  // little endian
    }
}

}  // namespace

Copy3D linear_copy(void* to, const void* from, size_t size, int kind) {
    return pitched_copy(to, size, from, size, size, 1, kind);
}

Copy3D pitched_copy(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                    size_t height, int kind) {
    Copy3D copy{};
    copy.from = {static_cast<char*>(const_cast<void*>(from)), from_pitch, width, height};
    copy.to = {static_cast<char*>(to), to_pitch, width, height};
    copy.extent = {width, height, 1};
    copy.kind = kind;
    return copy;
}

Copy3D from_driver_copy(const DriverCopy3D& copy) {
    const auto pointer = [&](const DriverCopySide& side) {
        char* memory = side.memory_type == kHost || !side.device ? side.host : side.device;
        const size_t pitch = side.pitch ? side.pitch : side.x + copy.width;
        return PitchedPointer{memory, pitch, pitch,
                              side.height ? side.height : side.y + copy.height};
    };
    Copy3D out{};
    out.from_array = copy.from.array;
    out.from_position = {copy.from.x, copy.from.y, copy.from.z};
    out.from = pointer(copy.from);
    out.to_array = copy.to.array;
    out.to_position = {copy.to.x, copy.to.y, copy.to.z};
    out.to = pointer(copy.to);
    out.extent = {copy.width, copy.height, copy.depth};
    out.kind = kDefaultCopy;
    return out;
}

DriverCopy3D to_driver_copy(const Copy3D& copy) {
    const auto side = [](const PitchedPointer& memory, const Position& at, bool is_host) {
        DriverCopySide out{};
        out.x = at.x;
        out.y = at.y;
        out.z = at.z;
        out.memory_type = is_host ? kHost : kDeviceMemory;
        (is_host ? out.host : out.device) = memory.pointer;
        out.pitch = memory.pitch;
        out.height = memory.height;
        return out;
    };
    const bool from_host = copy.kind == kHostToHost || copy.kind == kHostToDevice;
    const bool to_host = copy.kind == kHostToHost || copy.kind == kDeviceToHost;
    return {side(copy.from, copy.from_position, from_host),
            side(copy.to, copy.to_position, to_host), copy.extent.width, copy.extent.height,
            copy.extent.depth};
}

Error check_copy(const Copy3D& copy) {
    if (copy.from_array || copy.to_array) {
        return kNotSupported;
    }
    if ((copy.kind < kHostToHost || copy.kind > kDefaultCopy) && copy.kind != kNoCuCopy) {
        return kInvalidMemcpyDirection;
    }
    if (is_empty(copy.extent)) {
        return kSuccess;
    }
    char* start;
    uint64_t size;
    const bool fits = locate(copy.from, copy.from_position, copy.extent, start, size) &&
                      locate(copy.to, copy.to_position, copy.extent, start, size);
    return fits ? kSuccess : kInvalidValue;
}

Error run_copy(const Copy3D& copy) {
    if (const Error error = check_copy(copy); error != kSuccess || is_empty(copy.extent)) {
        return error;
    }
    const Extent& extent = copy.extent;
    char *from = nullptr, *to = nullptr;
    uint64_t from_size = 0, to_size = 0;
    if (!locate(copy.from, copy.from_position, extent, from, from_size) ||
        !locate(copy.to, copy.to_position, extent, to, to_size) || !is_copyable(from, from_size) ||
        !is_copyable(to, to_size)) {
        return kInvalidValue;
    }
    for (size_t z = 0; z < extent.depth; ++z) {
        for (size_t y = 0; y < extent.height; ++y) {
            std::memmove(to + (z * copy.to.height + y) * copy.to.pitch,
                         from + (z * copy.from.height + y) * copy.from.pitch, extent.width);
        }
    }
    return kSuccess;
}

Error check_fill(const FillBox& fill) {
    const Fill& rows = fill.rows;
    if (rows.element_size != 1 && rows.element_size != 2 && rows.element_size != 4) {
        return kInvalidValue;
    }
    size_t row_bytes, size;
    if (rows.width == 0 || rows.height == 0 || fill.depth == 0) {
        return kSuccess;
    }
    if (!rows.to || __builtin_mul_overflow(rows.width, rows.element_size, &row_bytes)) {
        return kInvalidValue;
    }
    if (rows.height == 1 && fill.depth == 1) {
        return kSuccess;  // the pitch does not matter
    }
    char* start;
    const PitchedPointer memory{rows.to, rows.pitch, rows.pitch, fill.slice_rows};
    return locate(memory, {}, {row_bytes, rows.height, fill.depth}, start, size) ? kSuccess
                                                                                : kInvalidValue;
}

bool is_fillable(const FillBox& fill) {
    const Fill& rows = fill.rows;
    const size_t last_row = (fill.depth - 1) * fill.slice_rows + rows.height - 1;
    return is_copyable(rows.to, last_row * rows.pitch + rows.width * rows.element_size);
}

Error run_fill(const FillBox& fill) {
    const Fill& rows = fill.rows;
    if (const Error error = check_fill(fill); error != kSuccess) {
        return error;
    }
    if (rows.width == 0 || rows.height == 0 || fill.depth == 0) {
        return kSuccess;
    }
    if (!is_fillable(fill)) {
        return kInvalidValue;
    }
    for (size_t z = 0; z < fill.depth; ++z) {
        for (size_t y = 0; y < rows.height; ++y) {
            fill_row(rows.to + (z * fill.slice_rows + y) * rows.pitch, rows.value,
                     rows.element_size, rows.width);
        }
    }
    return kSuccess;
}

}  // namespace asmevo::emulator::hip
