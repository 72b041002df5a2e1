// The virtual memory API: reserve addresses, create memory, map the one into the other. A replay
// uses it to put captured regions back at their captured addresses, so a requested address is
// honoured wherever it is free.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>

#include "hip/api.h"
#include "hip/device.h"
#include "hip/launch.h"
#include "memory/address_space.h"
#include "memory/arena.h"
#include "memory/host_mappings.h"

namespace asmevo::emulator::hip {
namespace {

/// Memory without an address: hipMemGenericAllocationHandle_t. Lives until it is released and no
/// longer mapped.
struct PhysicalMemory {
    PhysicalMemory(int file_descriptor, uint64_t size_bytes, const MemAllocationProperties& props)
        : descriptor(file_descriptor), size(size_bytes), properties(props) {}
    ~PhysicalMemory() { close(descriptor); }
    PhysicalMemory(const PhysicalMemory&) = delete;
    PhysicalMemory& operator=(const PhysicalMemory&) = delete;

    int descriptor;
    uint64_t size;
    MemAllocationProperties properties;
};

struct Mapping {
    uint64_t size = 0;
    std::shared_ptr<PhysicalMemory> memory;
    int access = kAccessNone;
};

struct State {
    std::mutex mutex;
    std::map<uint64_t, uint64_t> reservations;  // start to size
    std::map<uint64_t, Mapping> mappings;       // by start
    std::map<PhysicalMemory*, std::shared_ptr<PhysicalMemory>> handles;
};

State& state() {
    static State& instance = *new State;
    return instance;
}

bool is_granular(uint64_t value) {
    return value != 0 && value % kPageSize == 0;
}

bool is_reserved(const State& s, uint64_t base, uint64_t size) {
    auto after = s.reservations.upper_bound(base);
    if (after == s.reservations.begin()) {
        return false;
    }
    const auto& [start, length] = *std::prev(after);
    return base - start < length && length - (base - start) >= size;
}

bool overlaps_mapping(const State& s, uint64_t base, uint64_t size) {
    auto after = s.mappings.lower_bound(base + size);
    return after != s.mappings.begin() &&
           std::prev(after)->first + std::prev(after)->second.size > base;
}

/// Runs `visit` on each mapping of [base, base + size); false unless mappings cover it without a
/// gap or a cut.
template <typename Visit>
bool visit_mappings(State& s, uint64_t base, uint64_t size, Visit&& visit) {
    uint64_t covered = base;
    for (auto it = s.mappings.find(base);
         it != s.mappings.end() && it->first == covered && covered < base + size; ++it) {
        covered += it->second.size;
    }
    if (size == 0 || covered != base + size) {
        return false;
    }
    for (auto it = s.mappings.find(base); it != s.mappings.end() && it->first < base + size;) {
        auto current = it++;
        visit(current);
    }
    return true;
}

Error create(PhysicalMemory** handle, uint64_t size, const MemAllocationProperties* properties) {
    if (!handle || !properties || !is_granular(size)) {
        return kInvalidValue;
    }
    if (properties->location.id != 0) {
        return kInvalidDevice;
    }
    if (size > device_memory_bytes()) {
        return kOutOfMemory;
    }
    const int descriptor = memfd_create("asmevo-device-memory", MFD_CLOEXEC);
    if (descriptor < 0) {
        return kOutOfMemory;
    }
    auto memory = std::make_shared<PhysicalMemory>(descriptor, size, *properties);
    if (ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
        return kOutOfMemory;
    }
    State& s = state();
    std::lock_guard lock(s.mutex);
    s.handles[memory.get()] = memory;
    *handle = memory.get();
    return kSuccess;
}

Error map(uint64_t base, uint64_t size, uint64_t offset, PhysicalMemory* handle) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    auto found = s.handles.find(handle);
    if (found == s.handles.end() || !is_granular(size) || base % kPageSize != 0 ||
        offset % kPageSize != 0 || offset > handle->size || handle->size - offset < size ||
        !is_reserved(s, base, size) || overlaps_mapping(s, base, size)) {
        return kInvalidValue;
    }
    void* at = mmap(reinterpret_cast<void*>(base), size, PROT_NONE, MAP_SHARED | MAP_FIXED,
                    handle->descriptor, static_cast<off_t>(offset));
    if (at == MAP_FAILED) {
        return kMapFailed;
    }
    s.mappings[base] = {size, found->second, kAccessNone};
    return kSuccess;
}

Error set_access(uint64_t base, uint64_t size, const MemAccess& access) {
    if (access.location.id != 0) {
        return kInvalidDevice;
    }
    if (access.flags != kAccessNone && access.flags != kAccessRead &&
        access.flags != kAccessReadWrite) {
        return kInvalidValue;
    }
    // The host keeps its rights: a read-only mapping is read-only to the device.
    const int protection = access.flags == kAccessNone ? PROT_NONE : PROT_READ | PROT_WRITE;
    const auto launches = lock_launches();
    State& s = state();
    std::lock_guard lock(s.mutex);
    const bool is_covered = visit_mappings(s, base, size, [&](auto it) {
        mprotect(reinterpret_cast<void*>(it->first), it->second.size, protection);
        it->second.access = access.flags;
        if (access.flags == kAccessNone) {
            AddressSpace::get().remove(it->first);
        } else {
            AddressSpace::get().add({it->first, it->second.size, MemoryKind::kVirtual,
                                     access.flags == kAccessReadWrite});
        }
    });
    return is_covered ? kSuccess : kInvalidValue;
}

/// A mapping whose stores reach no one else: the memory keeps its contents, and mapping it again takes every store back.
/// The device reads and writes it.
Error map_copy_on_write(uint64_t base, uint64_t size, PhysicalMemory* handle) {
    const auto launches = lock_launches();
    State& s = state();
    std::lock_guard lock(s.mutex);
    auto found = s.handles.find(handle);
    auto known = s.mappings.find(base);
    const bool is_again = known != s.mappings.end() && known->second.size == size && found != s.handles.end() &&
                          known->second.memory == found->second;
    if (found == s.handles.end() || !is_granular(size) || size > handle->size || base % kPageSize != 0 ||
        !is_reserved(s, base, size) || (!is_again && overlaps_mapping(s, base, size))) {
        return kInvalidValue;
    }
    void* at = mmap(reinterpret_cast<void*>(base), size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, handle->descriptor, 0);
    if (at == MAP_FAILED) {
        return kMapFailed;
    }
    s.mappings[base] = {size, found->second, kAccessReadWrite};
    AddressSpace::get().add({base, size, MemoryKind::kVirtual, true});
    return kSuccess;
}

Error unmap(uint64_t base, uint64_t size) {
    const auto launches = lock_launches();
    State& s = state();
    std::lock_guard lock(s.mutex);
    const bool is_covered = visit_mappings(s, base, size, [&](auto it) {
        AddressSpace::get().remove(it->first);
        // The addresses stay reserved.
        mmap(reinterpret_cast<void*>(it->first), it->second.size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        s.mappings.erase(it);
    });
    return is_covered ? kSuccess : kInvalidValue;
}

}  // namespace

HIP_SLOT(hipMemGetAllocationGranularity)(size_t* granularity,
                                         const MemAllocationProperties* properties, int) {
    return api([&] {
        if (!granularity || !properties) {
            return kInvalidValue;
        }
        *granularity = kPageSize;
        return kSuccess;
    });
}

HIP_SLOT(hipMemAddressReserve)(void** out, size_t size, size_t alignment, void* address,
                               uint64_t flags) {
    return api([&] {
        if (!out || !is_granular(size) || flags != 0 || (alignment & (alignment - 1)) != 0) {
            return kInvalidValue;
        }
        uint64_t base = reinterpret_cast<uint64_t>(address);
        if (!Arena::get().reserve_at(base, size)) {
            base = Arena::get().reserve(Area::kVirtual, size, alignment);
        }
        if (base == 0) {
            return kOutOfMemory;
        }
        State& s = state();
        std::lock_guard lock(s.mutex);
        s.reservations[base] = size;
        forget_host_mappings();
        *out = reinterpret_cast<void*>(base);
        return kSuccess;
    });
}

HIP_SLOT(hipMemAddressFree)(void* pointer, size_t size) {
    return api_always([&] {
        State& s = state();
        std::lock_guard lock(s.mutex);
        const uint64_t base = reinterpret_cast<uint64_t>(pointer);
        auto found = s.reservations.find(base);
        if (found == s.reservations.end() || found->second != size ||
            overlaps_mapping(s, base, size)) {
            return kInvalidValue;
        }
        s.reservations.erase(found);
        Arena::get().unmap(base);
        return kSuccess;
    });
}

HIP_SLOT(hipMemCreate)(PhysicalMemory** handle, size_t size,
                       const MemAllocationProperties* properties, uint64_t flags) {
    return api([&] { return flags == 0 ? create(handle, size, properties) : kInvalidValue; });
}

HIP_SLOT(hipMemRelease)(PhysicalMemory* handle) {
    return api_always([&] {
        State& s = state();
        std::lock_guard lock(s.mutex);
        return s.handles.erase(handle) ? kSuccess : kInvalidValue;
    });
}

HIP_SLOT(hipMemMap)(void* pointer, size_t size, size_t offset, PhysicalMemory* handle,
                    uint64_t flags) {
    return api([&] {
        return flags == 0 ? map(reinterpret_cast<uint64_t>(pointer), size, offset, handle)
                          : kInvalidValue;
    });
}

HIP_SLOT(hipMemSetAccess)(void* pointer, size_t size, const MemAccess* accesses, size_t count) {
    return api([&] {
        if (!pointer || !accesses || count == 0) {
            return kInvalidValue;
        }
        for (size_t i = 0; i < count; ++i) {
            if (Error error = set_access(reinterpret_cast<uint64_t>(pointer), size, accesses[i]);
                error != kSuccess) {
                return error;
            }
        }
        return kSuccess;
    });
}

HIP_SLOT(hipMemGetAccess)(uint64_t* flags, const MemLocation* location, void* pointer) {
    return api([&] {
        State& s = state();
        std::lock_guard lock(s.mutex);
        auto after = s.mappings.upper_bound(reinterpret_cast<uint64_t>(pointer));
        if (!flags || !location || location->id != 0 || after == s.mappings.begin() ||
            reinterpret_cast<uint64_t>(pointer) - std::prev(after)->first >=
                std::prev(after)->second.size) {
            return kInvalidValue;
        }
        *flags = static_cast<uint64_t>(std::prev(after)->second.access);
        return kSuccess;
    });
}

HIP_SLOT(hipMemUnmap)(void* pointer, size_t size) {
    return api_always([&] { return unmap(reinterpret_cast<uint64_t>(pointer), size); });
}

HIP_SLOT(hipMemRetainAllocationHandle)(PhysicalMemory** handle, void* address) {
    return api([&] {
        State& s = state();
        std::lock_guard lock(s.mutex);
        auto found = s.mappings.find(reinterpret_cast<uint64_t>(address));
        if (!handle || found == s.mappings.end()) {
            return kInvalidValue;
        }
        *handle = found->second.memory.get();
        s.handles[*handle] = found->second.memory;
        return kSuccess;
    });
}

HIP_SLOT(hipMemGetAllocationPropertiesFromHandle)(MemAllocationProperties* properties,
                                                  PhysicalMemory* handle) {
    return api([&] {
        State& s = state();
        std::lock_guard lock(s.mutex);
        if (!properties || s.handles.find(handle) == s.handles.end()) {
            return kInvalidValue;
        }
        *properties = handle->properties;
        return kSuccess;
    });
}

}  // namespace asmevo::emulator::hip

extern "C" __attribute__((visibility("default"))) int asmevo_emulator_map_copy_on_write(
    void* address, size_t size, void* handle) {
    using namespace asmevo::emulator::hip;
    return api([&] {
        return map_copy_on_write(reinterpret_cast<uint64_t>(address), size,
                                 static_cast<PhysicalMemory*>(handle));
    });
}
