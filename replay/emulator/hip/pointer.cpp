// What a program may ask about a pointer.
#include <cstring>

#include "hip/allocation.h"
#include "hip/api.h"
#include "hip/device.h"
#include "memory/address_space.h"
#include "memory/host_mappings.h"

namespace asmevo::emulator::hip {
namespace {

bool find_range(const void* pointer, MemoryRange& range) {
    distrust_host_mappings();
    return pointer && AddressSpace::get().find(reinterpret_cast<uint64_t>(pointer), 1, range);
}

bool is_allocation(const MemoryRange& range) {
    return range.kind != MemoryKind::kPageableHost;
}

int memory_type(const MemoryRange& range) {
    switch (range.kind) {
        case MemoryKind::kPageableHost:
            return kUnregistered;
        case MemoryKind::kPinnedHost:
            return kHost;
        case MemoryKind::kManaged:
            return kManagedMemory;
        default:
            return kDeviceMemory;
    }
}

template <typename Value>
Error store(void* out, Value value) {
    std::memcpy(out, &value, sizeof value);
    return kSuccess;
}

/// Mapped host memory counts as a device pointer: the device reaches it at its own address.
Error get_attribute(void* out, int attribute, void* pointer) {
    MemoryRange range;
    if (!out || !find_range(pointer, range)) {
        return kInvalidValue;
    }
    if (attribute == kAttributeDevicePointer) {
        return store(out, pointer);
    }
    if (attribute == kAttributeMapped) {
        return store(out, static_cast<int>(is_allocation(range)));
    }
    if (!is_allocation(range)) {
        return kInvalidValue;
    }
    switch (attribute) {
        case kAttributeContext:
            return store(out, primary_context());
        case kAttributeMemoryType:
            return store(out, memory_type(range));
        case kAttributeHostPointer:
            return range.kind == MemoryKind::kDevice ? kInvalidValue : store(out, pointer);
        case kAttributeSyncMemops:
            return store(out, 0);
        case kAttributeBufferId:
            return store(out, range.base);
        case kAttributeIsManaged:
            return store(out, static_cast<int>(range.kind == MemoryKind::kManaged));
        case kAttributeDeviceOrdinal:
            return store(out, 0);
        case kAttributeRangeStart:
            return store(out, range.base);
        case kAttributeRangeSize:
            return store(out, range.size);
        default:
            return kNotSupported;
    }
}

}  // namespace

HIP_SLOT(hipPointerGetAttribute)(void* out, int attribute, void* pointer) {
    return api([&] { return get_attribute(out, attribute, pointer); });
}

HIP_SLOT(hipDrvPointerGetAttributes)(unsigned count, const int* attributes, void** out,
                                     void* pointer) {
    return api([&] {
        if (!attributes || !out) {
            return kInvalidValue;
        }
        for (unsigned i = 0; i < count; ++i) {
            if (get_attribute(out[i], attributes[i], pointer) != kSuccess && out[i]) {
                store(out[i], 0);
            }
        }
        return kSuccess;
    });
}

HIP_SLOT(hipPointerSetAttribute)(const void* value, int attribute, void* pointer) {
    return api([&] {
        MemoryRange range;
        return value && attribute == kAttributeSyncMemops && find_range(pointer, range)
                   ? kSuccess
                   : kInvalidValue;
    });
}

HIP_SLOT(hipPointerGetAttributes)(PointerAttributes* out, const void* pointer) {
    return api([&] {
        if (!out || !pointer) {
            return kInvalidValue;
        }
        MemoryRange range;
        *out = {};
        if (!find_range(pointer, range) || !is_allocation(range)) {
            out->type = kUnregistered;  // as ROCm 6 and later: not an error
            out->device = -2;           // hipInvalidDeviceId
            return kSuccess;
        }
        out->type = memory_type(range);
        out->device_pointer = const_cast<void*>(pointer);
        out->host_pointer =
            range.kind == MemoryKind::kDevice ? nullptr : const_cast<void*>(pointer);
        out->is_managed = range.kind == MemoryKind::kManaged;
        out->allocation_flags = allocation_flags(range.base);
        return kSuccess;
    });
}

HIP_SLOT(hipMemGetAddressRange)(void** base, size_t* size, void* pointer) {
    return api([&] {
        MemoryRange range;
        if (!find_range(pointer, range) || !is_allocation(range)) {
            return kNotFound;
        }
        if (base) {
            *base = reinterpret_cast<void*>(range.base);
        }
        if (size) {
            *size = range.size;
        }
        return kSuccess;
    });
}

HIP_SLOT(hipMemPtrGetInfo)(void* pointer, size_t* size) {
    return api([&] {
        MemoryRange range;
        if (!size || !find_range(pointer, range) || !is_allocation(range)) {
            return kInvalidValue;
        }
        *size = range.size;
        return kSuccess;
    });
}

}  // namespace asmevo::emulator::hip
