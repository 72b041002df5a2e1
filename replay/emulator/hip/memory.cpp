// Allocation: hipMalloc, pinned and managed memory, registration of host memory, stream-ordered
// allocation.
#include <algorithm>
#include <map>
#include <mutex>

#include "hip/allocation.h"
#include "hip/api.h"
#include "hip/device.h"
#include "hip/graph/allocation_node.h"
#include "hip/launch.h"
#include "hip/stream.h"
#include "memory/arena.h"
#include "memory/host_mappings.h"
#include "memory/unwritten.h"

namespace asmevo::emulator::hip {
namespace {

struct Allocation {
    uint64_t size = 0;
    unsigned flags = 0;
    bool is_registered_host = false;  // the program's own memory: hipHostRegister
};

std::mutex g_mutex;
uint64_t g_allocated = 0;

std::map<uint64_t, Allocation>& allocations() {
    static auto& instance = *new std::map<uint64_t, Allocation>;
    return instance;
}

Error allocate_to(void** out, uint64_t size_bytes, MemoryKind kind, unsigned flags = 0) {
    if (!out) {
        return kInvalidValue;
    }
    *out = nullptr;
    if (size_bytes == 0) {
        return kSuccess;
    }
    const uint64_t base = allocate(size_bytes, kind, flags);
    if (base != 0 && (dispatch_options().checks & kCheckUndefined)) {
        UnwrittenMemory::get().add(base, size_bytes);
    }
    *out = reinterpret_cast<void*>(base);
    return *out ? kSuccess : kOutOfMemory;
}


/// In a captured stream the memory belongs to the graph.
Error capture_allocation(void** out, uint64_t size_bytes, const Stream* stream) {
    if (!out || size_bytes == 0) {
        return kInvalidValue;
    }
    auto memory = GraphAllocation::make(size_bytes);
    if (!memory) {
        return kOutOfMemory;
    }
    *out = reinterpret_cast<void*>(memory->address());
    return submit(stream, AllocationOperation{std::move(memory)});
}

bool overlaps_registered(uint64_t base, uint64_t size) {
    auto after = allocations().lower_bound(base + size);
    if (after == allocations().begin()) {
        return false;
    }
    const auto& [start, allocation] = *std::prev(after);
    return start + allocation.size > base;
}

}  // namespace

uint64_t allocate(uint64_t size_bytes, MemoryKind kind, unsigned flags, uint64_t alignment) {
    std::lock_guard lock(g_mutex);
    const uint64_t total = device_memory_bytes();
    if (size_bytes > total || g_allocated > total - size_bytes) {
        return 0;
    }
    const uint64_t base = Arena::get().map(Area::kDevice, size_bytes, alignment);
    if (base != 0) {
        allocations()[base] = {size_bytes, flags, false};
        g_allocated += size_bytes;
        AddressSpace::get().add({base, size_bytes, kind, true});
    }
    return base;
}

bool release(uint64_t address) {
    const auto launches = lock_launches();
    return release_in_launch(address);
}

bool release_in_launch(uint64_t address) {
    std::lock_guard lock(g_mutex);
    auto found = allocations().find(address);
    if (found == allocations().end() || found->second.is_registered_host) {
        return false;
    }
    g_allocated -= found->second.size;
    allocations().erase(found);
    AddressSpace::get().remove(address);
    UnwrittenMemory::get().remove(address);
    Arena::get().unmap(address);
    return true;
}

unsigned allocation_flags(uint64_t base) {
    std::lock_guard lock(g_mutex);
    auto found = allocations().find(base);
    return found == allocations().end() ? 0 : found->second.flags;
}

Error free_memory(void* pointer) {
    const uint64_t address = reinterpret_cast<uint64_t>(pointer);
    return !pointer || release(address) || release_graph_memory(address) ? kSuccess : kInvalidValue;
}

uint64_t allocated_bytes() {
    std::lock_guard lock(g_mutex);
    return g_allocated;
}

HIP_SLOT(hipMalloc)(void** pointer, size_t size) {
    return api([&] { return allocate_to(pointer, size, MemoryKind::kDevice); });
}

HIP_SLOT(hipExtMallocWithFlags)(void** pointer, size_t size, unsigned flags) {
    return api([&] { return allocate_to(pointer, size, MemoryKind::kDevice, flags); });
}

HIP_SLOT(hipFree)(void* pointer) {
    return api_always([&] { return free_memory(pointer); });
}

HIP_SLOT(hipMallocAsync)(void** pointer, size_t size, Stream* stream) {
    return api([&] {
        if (!is_stream(stream)) {
            return kInvalidHandle;
        }
        return capture_of(stream) ? capture_allocation(pointer, size, stream)
                                  : allocate_to(pointer, size, MemoryKind::kDevice);
    });
}

HIP_SLOT(hipFreeAsync)(void* pointer, Stream* stream) {
    return api_always(
        [&] { return pointer ? submit(stream, FreeOperation{pointer}) : kInvalidValue; });
}

HIP_SLOT(hipHostMalloc)(void** pointer, size_t size, unsigned flags) {
    return api([&] { return allocate_to(pointer, size, MemoryKind::kPinnedHost, flags); });
}

HIP_SLOT(hipHostAlloc)(void** pointer, size_t size, unsigned flags) {
    return slot_hipHostMalloc(pointer, size, flags);
}
HIP_SLOT(hipExtHostAlloc)(void** pointer, size_t size, unsigned flags) {
    return slot_hipHostMalloc(pointer, size, flags);
}
HIP_SLOT(hipMallocHost)(void** pointer, size_t size) {
    return slot_hipHostMalloc(pointer, size, 0);
}
HIP_SLOT(hipMemAllocHost)(void** pointer, size_t size) {
    return slot_hipHostMalloc(pointer, size, 0);
}

HIP_SLOT(hipHostFree)(void* pointer) {
    return api_always([&] { return free_memory(pointer); });
}
HIP_SLOT(hipFreeHost)(void* pointer) {
    return slot_hipHostFree(pointer);
}

HIP_SLOT(hipMallocManaged)(void** pointer, size_t size, unsigned flags) {
    return api([&] {
        const unsigned attach = flags & 3;  // hipMemAttachGlobal 1, hipMemAttachHost 2
        return size == 0 || (attach != 1 && attach != 2)
                   ? kInvalidValue
                   : allocate_to(pointer, size, MemoryKind::kManaged, flags);
    });
}

HIP_SLOT(hipMallocPitch)(void** pointer, size_t* pitch, size_t width, size_t height) {
    return api([&] {
        constexpr uint64_t kPitchAlignment = 256;
        if (!pitch || width > UINT64_MAX - kPitchAlignment) {
            return kInvalidValue;
        }
        *pitch = round_up(width, kPitchAlignment);
        uint64_t size;
        if (__builtin_mul_overflow(*pitch, height, &size)) {
            return kOutOfMemory;
        }
        return allocate_to(pointer, size, MemoryKind::kDevice);
    });
}

HIP_SLOT(hipHostRegister)(void* pointer, size_t size, unsigned flags) {
    return api([&] {
        const uint64_t base = reinterpret_cast<uint64_t>(pointer);
        HostMapping mapping;
        if (base == 0 || size == 0 || base + size < base ||
            !find_host_mapping(base, size, mapping)) {
            return kInvalidValue;
        }
        std::lock_guard lock(g_mutex);
        if (overlaps_registered(base, size)) {
            return kHostMemoryAlreadyRegistered;
        }
        allocations()[base] = {size, flags, true};
        AddressSpace::get().add({base, size, MemoryKind::kPinnedHost, mapping.writable});
        return kSuccess;
    });
}

HIP_SLOT(hipHostUnregister)(void* pointer) {
    return api_always([&] {
        const uint64_t base = reinterpret_cast<uint64_t>(pointer);
        const auto launches = lock_launches();
        std::lock_guard lock(g_mutex);
        auto found = allocations().find(base);
        if (found == allocations().end() || !found->second.is_registered_host) {
            return kHostMemoryNotRegistered;
        }
        allocations().erase(found);
        AddressSpace::get().remove(base);
        return kSuccess;
    });
}

HIP_SLOT(hipHostGetDevicePointer)(void** device_pointer, void* host_pointer, unsigned) {
    return api([&] {
        MemoryRange range;
        if (!device_pointer ||
            !AddressSpace::get().find(reinterpret_cast<uint64_t>(host_pointer), 1, range)) {
            return kInvalidValue;
        }
        *device_pointer = host_pointer;
        return kSuccess;
    });
}

HIP_SLOT(hipHostGetFlags)(unsigned* flags, void* pointer) {
    return api([&] {
        MemoryRange range;
        if (!flags || !AddressSpace::get().find(reinterpret_cast<uint64_t>(pointer), 1, range) ||
            range.kind != MemoryKind::kPinnedHost) {
            return kInvalidValue;
        }
        *flags = allocation_flags(range.base);
        return kSuccess;
    });
}

HIP_SLOT(hipMemGetInfo)(size_t* free_bytes, size_t* total_bytes) {
    return api([&] {
        if (!free_bytes || !total_bytes) {
            return kInvalidValue;
        }
        *total_bytes = device_memory_bytes();
        *free_bytes = *total_bytes - std::min<uint64_t>(*total_bytes, allocated_bytes());
        return kSuccess;
    });
}

HIP_SLOT(hipDeviceTotalMem)(size_t* bytes, int device) {
    return api([&] {
        if (!bytes) {
            return kInvalidValue;
        }
        *bytes = device_memory_bytes();
        return device == 0 ? kSuccess : kInvalidDevice;
    });
}

// Placement hints: the device and the host share one memory.
HIP_SLOT(hipMemPrefetchAsync)(const void*, size_t, int, Stream* stream) {
    return api([&] { return is_stream(stream) ? kSuccess : kInvalidHandle; });
}
HIP_SLOT(hipMemAdvise)(const void* pointer, size_t size, int, int) {
    return api([&] { return pointer && size ? kSuccess : kInvalidValue; });
}

}  // namespace asmevo::emulator::hip
