// Copies and fills of boxes in pitched memory. Arrays (textures) do not exist on CDNA.
#include <cstring>

#include "hip/api.h"
#include "hip/copy.h"
#include "hip/stream.h"

namespace asmevo::emulator::hip {
namespace {

/// hipPitchedPtr, hipPos, hipExtent, hipMemcpy3DParms, hip_Memcpy2D.
struct PitchedPointer {
    char* pointer;
    size_t pitch, width, height;
};
struct Position {
    size_t x, y, z;
};
struct Extent {
    size_t width, height, depth;
};
struct Copy3D {
    void* from_array;
    Position from_position;
    PitchedPointer from;
    void* to_array;
    Position to_position;
    PitchedPointer to;
    Extent extent;
    int kind;
};
static_assert(sizeof(Copy3D) == 160);
struct Copy2DSide {
    size_t x, y;
    int memory_type;
    char *host, *device;
    void* array;
    size_t pitch;
};
struct Copy2D {
    Copy2DSide from, to;
    size_t width, height;
};
static_assert(sizeof(Copy2D) == 128);

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
    return !__builtin_add_overflow(last, extent.width, &size) && is_copyable(start, size);
}

bool is_empty(const Extent& extent) {
    return extent.width == 0 || extent.height == 0 || extent.depth == 0;
}

Error copy_box(const Copy3D* copy) {
    if (!copy || copy->from_array || copy->to_array) {
        return copy ? kNotSupported : kInvalidValue;
    }
    const Extent& extent = copy->extent;
    if (is_empty(extent)) {
        return kSuccess;
    }
    char *from, *to;
    uint64_t size;
    if (!locate(copy->from, copy->from_position, extent, from, size) ||
        !locate(copy->to, copy->to_position, extent, to, size)) {
        return kInvalidValue;
    }
    for (size_t z = 0; z < extent.depth; ++z) {
        for (size_t y = 0; y < extent.height; ++y) {
            std::memmove(to + (z * copy->to.height + y) * copy->to.pitch,
                         from + (z * copy->from.height + y) * copy->from.pitch, extent.width);
        }
    }
    return kSuccess;
}

Error fill_box(const PitchedPointer& memory, int value, const Extent& extent) {
    if (is_empty(extent)) {
        return kSuccess;
    }
    char* start;
    uint64_t size;
    if (!locate(memory, {}, extent, start, size)) {
        return kInvalidValue;
    }
    for (size_t z = 0; z < extent.depth; ++z) {
        for (size_t y = 0; y < extent.height; ++y) {
            std::memset(start + (z * memory.height + y) * memory.pitch, value, extent.width);
        }
    }
    return kSuccess;
}

PitchedPointer pitched(const Copy2DSide& side) {
    char* pointer = side.memory_type == kHost || !side.device ? side.host : side.device;
    return {pointer, side.pitch, side.pitch, 0};
}

Error copy_rectangle(const Copy2D* copy) {
    if (!copy || copy->from.array || copy->to.array) {
        return copy ? kNotSupported : kInvalidValue;
    }
    const Copy3D box{nullptr,
                     {copy->from.x, copy->from.y, 0},
                     pitched(copy->from),
                     nullptr,
                     {copy->to.x, copy->to.y, 0},
                     pitched(copy->to),
                     {copy->width, copy->height, 1},
                     kDefaultCopy};
    return copy_box(&box);
}

}  // namespace

HIP_SLOT(hipMemcpy3D)(const Copy3D* copy) {
    return api([&] { return copy_box(copy); });
}
HIP_SLOT(hipMemcpy3DAsync)(const Copy3D* copy, Stream* stream) {
    return api([&] {
        return copy ? submit(stream, NodeType::kCopy, [box = *copy] { return copy_box(&box); })
                    : kInvalidValue;
    });
}
HIP_SLOT(hipMemcpyParam2D)(const Copy2D* copy) {
    return api([&] { return copy_rectangle(copy); });
}
HIP_SLOT(hipMemcpyParam2DAsync)(const Copy2D* copy, Stream* stream) {
    return api([&] {
        return copy
                   ? submit(stream, NodeType::kCopy, [box = *copy] { return copy_rectangle(&box); })
                   : kInvalidValue;
    });
}
HIP_SLOT(hipDrvMemcpy2DUnaligned)(const Copy2D* copy) {
    return slot_hipMemcpyParam2D(copy);
}
HIP_SLOT(hipMemset3D)(PitchedPointer memory, int value, Extent extent) {
    return api([&] { return fill_box(memory, value, extent); });
}
HIP_SLOT(hipMemset3DAsync)(PitchedPointer memory, int value, Extent extent, Stream* stream) {
    return api([&] {
        return submit(stream, NodeType::kFill, [=] { return fill_box(memory, value, extent); });
    });
}

}  // namespace asmevo::emulator::hip
