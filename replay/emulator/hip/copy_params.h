// Parameter structs of copies and fills, as the HIP API passes them. They describe the work
// completely, so graph nodes hold them by value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hip/types.h"

namespace asmevo::emulator::hip {

/// hipPitchedPtr, hipPos, hipExtent.
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

/// hipMemcpy3DParms.
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

/// hip_Memcpy2D.
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

/// HIP_MEMCPY3D.
struct DriverCopySide {
    size_t x, y, z, level_of_detail;
    int memory_type;
    char *host, *device;
    void* array;
    size_t pitch, height;
};
struct DriverCopy3D {
    DriverCopySide from, to;
    size_t width, height, depth;
};
static_assert(sizeof(DriverCopy3D) == 184);

/// hipMemsetParams: `width` elements of `element_size` bytes in each of `height` rows.
struct Fill {
    char* to;
    unsigned element_size;
    size_t height, pitch;
    unsigned value;
    size_t width;
};
static_assert(sizeof(Fill) == 48);

/// A fill of a box: `depth` slices of `slice_rows` pitched rows each, of which `rows.height` are
/// filled.
struct FillBox {
    Fill rows;
    size_t slice_rows = 0, depth = 1;
};

Copy3D linear_copy(void* to, const void* from, size_t size, int kind);
Copy3D pitched_copy(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                    size_t height, int kind);
Copy3D from_driver_copy(const DriverCopy3D& copy);
DriverCopy3D to_driver_copy(const Copy3D& copy);

/// What is wrong with the parameters whatever the memory: kSuccess if nothing.
Error check_copy(const Copy3D& copy);
Error check_fill(const FillBox& fill);

/// Whether a checked fill that is not empty stays in one allocation.
bool is_fillable(const FillBox& fill);

/// Run at once in the calling thread, on checked device ranges.
Error run_copy(const Copy3D& copy);
Error run_fill(const FillBox& fill);

}  // namespace asmevo::emulator::hip
