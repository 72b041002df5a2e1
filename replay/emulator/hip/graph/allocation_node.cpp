#include "hip/graph/allocation_node.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "hip/api.h"
#include "hip/device.h"
#include "hip/launch.h"
#include "memory/address_space.h"
#include "memory/arena.h"
#include "memory/unwritten.h"

namespace asmevo::emulator::hip {
namespace {

struct State {
    std::mutex mutex;
    std::map<uint64_t, GraphAllocation*> allocations;
    uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
};

State& state() {
    static State& instance = *new State;
    return instance;
}

/// hipGraphMemAttributeType.
enum : int { kUsedCurrent = 0, kUsedHigh = 1, kReservedCurrent = 2, kReservedHigh = 3 };

}  // namespace

std::shared_ptr<GraphAllocation> GraphAllocation::make(uint64_t size_bytes) {
    const uint64_t address =
        size_bytes <= device_memory_bytes() ? Arena::get().map(Area::kDevice, size_bytes) : 0;
    if (address == 0) {
        return nullptr;
    }
    std::shared_ptr<GraphAllocation> memory(new GraphAllocation(address, size_bytes));
    State& s = state();
    std::lock_guard lock(s.mutex);
    s.allocations[address] = memory.get();
    s.reserved += size_bytes;
    s.reserved_high = std::max(s.reserved_high, s.reserved);
    return memory;
}

GraphAllocation::~GraphAllocation() {
    deactivate();
    {
        State& s = state();
        std::lock_guard lock(s.mutex);
        s.allocations.erase(address_);
        s.reserved -= size_;
    }
    Arena::get().unmap(address_);
}

bool GraphAllocation::activate() {
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (is_active_) {
        return false;
    }
    is_active_ = true;
    s.used += size_;
    s.used_high = std::max(s.used_high, s.used);
    if (dispatch_options().checks & kCheckUndefined) {
        UnwrittenMemory::get().add(address_, size_);
    }
    AddressSpace::get().add({address_, size_, MemoryKind::kDevice, true});
    return true;
}

bool GraphAllocation::deactivate() {
    const auto launches = lock_launches();
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (!is_active_) {
        return false;
    }
    is_active_ = false;
    s.used -= size_;
    AddressSpace::get().remove(address_);
    UnwrittenMemory::get().remove(address_);
    return true;
}

bool is_graph_memory(uint64_t address) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    const auto after = s.allocations.upper_bound(address);
    return after != s.allocations.begin() &&
           address - std::prev(after)->first < std::prev(after)->second->size();
}

bool release_graph_memory(uint64_t address) {
    GraphAllocation* memory = nullptr;
    {
        State& s = state();
        std::lock_guard lock(s.mutex);
        const auto found = s.allocations.find(address);
        if (found == s.allocations.end()) {
            return false;
        }
        memory = found->second;
    }
    return memory->deactivate();
}

HIP_SLOT(hipDeviceGetGraphMemAttribute)(int device, int attribute, void* value) {
    return api([&] {
        if (device != 0 || !value) {
            return device != 0 ? kInvalidDevice : kInvalidValue;
        }
        State& s = state();
        std::lock_guard lock(s.mutex);
        const uint64_t values[] = {s.used, s.used_high, s.reserved, s.reserved_high};
        if (attribute < kUsedCurrent || attribute > kReservedHigh) {
            return kInvalidValue;
        }
        std::memcpy(value, &values[attribute], sizeof values[attribute]);
        return kSuccess;
    });
}

/// Only the high-water marks can be set, to zero.
HIP_SLOT(hipDeviceSetGraphMemAttribute)(int device, int attribute, void* value) {
    return api([&] {
        if (device != 0 || !value) {
            return device != 0 ? kInvalidDevice : kInvalidValue;
        }
        uint64_t wanted;
        std::memcpy(&wanted, value, sizeof wanted);
        State& s = state();
        std::lock_guard lock(s.mutex);
        if (wanted != 0 || (attribute != kUsedHigh && attribute != kReservedHigh)) {
            return kInvalidValue;
        }
        (attribute == kUsedHigh ? s.used_high : s.reserved_high) = 0;
        return kSuccess;
    });
}

HIP_SLOT(hipDeviceGraphMemTrim)(int device) {
    return api([&] { return device == 0 ? kSuccess : kInvalidDevice; });
}

}  // namespace asmevo::emulator::hip
