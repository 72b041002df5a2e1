// Copies and fills of boxes in pitched memory. Arrays (textures) do not exist on CDNA.
#include "hip/api.h"
#include "hip/copy_params.h"
#include "hip/stream.h"

namespace asmevo::emulator::hip {
namespace {

/// hipMemcpy3DPeerParms.
struct PeerCopy3D {
    void* from_array;
    Position from_position;
    PitchedPointer from;
    int from_device;
    void* to_array;
    Position to_position;
    PitchedPointer to;
    int to_device;
    Extent extent;
};
static_assert(sizeof(PeerCopy3D) == 168);

PitchedPointer pitched(const Copy2DSide& side) {
    char* pointer = side.memory_type == kHost || !side.device ? side.host : side.device;
    return {pointer, side.pitch, side.pitch, 0};
}

Copy3D from_rectangle(const Copy2D& copy) {
    return {copy.from.array,
            {copy.from.x, copy.from.y, 0},
            pitched(copy.from),
            copy.to.array,
            {copy.to.x, copy.to.y, 0},
            pitched(copy.to),
            {copy.width, copy.height, 1},
            kDefaultCopy};
}

Copy3D from_peer(const PeerCopy3D& copy) {
    return {copy.from_array,  copy.from_position, copy.from,   copy.to_array,
            copy.to_position, copy.to,            copy.extent, kDeviceToDevice};
}

FillBox fill_box(const PitchedPointer& memory, int value, const Extent& extent) {
    return {Fill{memory.pointer, 1, extent.height, memory.pitch, static_cast<unsigned>(value),
                 extent.width},
            memory.height, extent.depth};
}

/// Runs a copy given by pointer now, made to a Copy3D by `convert`.
template <typename Params, typename Convert>
Error copy_now(const Params* params, Convert&& convert) {
    return api([&] { return params ? run_copy(convert(*params)) : kInvalidValue; });
}

/// The same in a stream.
template <typename Params, typename Convert>
Error copy_on(const Params* params, const Stream* stream, Convert&& convert) {
    return api([&] {
        if (!params) {
            return kInvalidValue;
        }
        const Copy3D copy = convert(*params);
        const Error error = check_copy(copy);
        return error == kSuccess ? submit(stream, CopyOperation{copy}) : error;
    });
}

Copy3D same(const Copy3D& copy) {
    return copy;
}

bool is_local(const PeerCopy3D* copy) {
    return copy && copy->from_device == 0 && copy->to_device == 0;
}

}  // namespace

HIP_SLOT(hipMemcpy3D)(const Copy3D* copy) {
    return copy_now(copy, same);
}
HIP_SLOT(hipMemcpy3DAsync)(const Copy3D* copy, Stream* stream) {
    return copy_on(copy, stream, same);
}
HIP_SLOT(hipMemcpy3D_spt)(const Copy3D* copy) {
    return slot_hipMemcpy3D(copy);
}
HIP_SLOT(hipMemcpy3DAsync_spt)(const Copy3D* copy, Stream* stream) {
    return slot_hipMemcpy3DAsync(copy, stream);
}
HIP_SLOT(hipDrvMemcpy3D)(const DriverCopy3D* copy) {
    return copy_now(copy, from_driver_copy);
}
HIP_SLOT(hipDrvMemcpy3DAsync)(const DriverCopy3D* copy, Stream* stream) {
    return copy_on(copy, stream, from_driver_copy);
}
HIP_SLOT(hipMemcpy3DPeer)(const PeerCopy3D* copy) {
    return is_local(copy) ? copy_now(copy, from_peer) : record(kInvalidValue);
}
HIP_SLOT(hipMemcpy3DPeerAsync)(const PeerCopy3D* copy, Stream* stream) {
    return is_local(copy) ? copy_on(copy, stream, from_peer) : record(kInvalidValue);
}
HIP_SLOT(hipMemcpyParam2D)(const Copy2D* copy) {
    return copy_now(copy, from_rectangle);
}
HIP_SLOT(hipMemcpyParam2DAsync)(const Copy2D* copy, Stream* stream) {
    return copy_on(copy, stream, from_rectangle);
}
HIP_SLOT(hipDrvMemcpy2DUnaligned)(const Copy2D* copy) {
    return slot_hipMemcpyParam2D(copy);
}
HIP_SLOT(hipMemset3D)(PitchedPointer memory, int value, Extent extent) {
    return api([&] { return run_fill(fill_box(memory, value, extent)); });
}
HIP_SLOT(hipMemset3DAsync)(PitchedPointer memory, int value, Extent extent, Stream* stream) {
    return api([&] {
        const FillBox box = fill_box(memory, value, extent);
        const Error error = check_fill(box);
        return error == kSuccess ? submit(stream, FillOperation{box}) : error;
    });
}
HIP_SLOT(hipMemset3D_spt)(PitchedPointer memory, int value, Extent extent) {
    return slot_hipMemset3D(memory, value, extent);
}
HIP_SLOT(hipMemset3DAsync_spt)(PitchedPointer memory, int value, Extent extent, Stream* stream) {
    return slot_hipMemset3DAsync(memory, value, extent, stream);
}

}  // namespace asmevo::emulator::hip
