#include "memory/address_space.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "exec/fault.h"
#include "memory/host_mappings.h"

namespace asmevo::emulator {
namespace {

struct State {
    mutable std::shared_mutex mutex;
    std::map<uint64_t, MemoryRange> ranges;  // by base; they do not overlap
    std::atomic<uint64_t> generation{1};
};

State& state() {
    static State& instance = *new State;
    return instance;
}

/// As on a GPU without unified memory: the device reaches only what was allocated or registered for
/// it.
bool is_discrete() {
    static const bool discrete = [] {
        const char* value = std::getenv("ASMEVO_EMULATOR_DISCRETE");
        return value && std::strcmp(value, "1") == 0;
    }();
    return discrete;
}

bool holds(const MemoryRange& range, uint64_t address, uint64_t size) {
    return address >= range.base && address - range.base < range.size &&
           range.size - (address - range.base) >= size;
}

const char* kind_name(MemoryKind kind) {
    switch (kind) {
        case MemoryKind::kDevice:
            return "device";
        case MemoryKind::kPinnedHost:
            return "pinned host";
        case MemoryKind::kManaged:
            return "managed";
        case MemoryKind::kModule:
            return "code object";
        case MemoryKind::kKernarg:
            return "kernarg";
        case MemoryKind::kVirtual:
            return "virtual";
        case MemoryKind::kPageableHost:
            return "pageable host";
    }
    return "unknown";
}

/// Where `address` lies in relation to the allocation next to it.
std::string describe_nearest(uint64_t address) {
    State& s = state();
    std::shared_lock lock(s.mutex);
    const MemoryRange* nearest = nullptr;
    uint64_t distance = UINT64_MAX;
    auto after = s.ranges.upper_bound(address);
    if (after != s.ranges.end()) {
        nearest = &after->second;
        distance = nearest->base - address;
    }
    if (after != s.ranges.begin()) {
        const MemoryRange& before = std::prev(after)->second;
        const uint64_t beyond =
            address < before.base + before.size ? 0 : address - (before.base + before.size);
        if (!nearest || beyond <= distance) {
            nearest = &before;
        }
    }
    if (!nearest) {
        return "the device has no allocation";
    }
    char text[200];
    const uint64_t end = nearest->base + nearest->size;
    const bool is_behind = address >= end, is_inside = address >= nearest->base && !is_behind;
    std::snprintf(text, sizeof text,
                  "the nearest allocation is 0x%" PRIx64 " + %" PRIu64
                  " bytes (%s memory), %" PRIu64 " bytes %s",
                  nearest->base, nearest->size, kind_name(nearest->kind),
                  is_inside   ? end - address
                  : is_behind ? address - end
                              : nearest->base - address,
                  is_inside   ? "before its end"
                  : is_behind ? "behind its end"
                              : "before its start");
    return text;
}

}  // namespace

AddressSpace& AddressSpace::get() {
    static AddressSpace instance;
    return instance;
}

void AddressSpace::add(const MemoryRange& range) {
    State& s = state();
    std::unique_lock lock(s.mutex);
    s.ranges[range.base] = range;
    s.generation.fetch_add(1, std::memory_order_release);
}

void AddressSpace::remove(uint64_t base) {
    State& s = state();
    std::unique_lock lock(s.mutex);
    s.ranges.erase(base);
    s.generation.fetch_add(1, std::memory_order_release);
}

bool AddressSpace::find(uint64_t address, uint64_t size, MemoryRange& out) const {
    State& s = state();
    {
        std::shared_lock lock(s.mutex);
        auto after = s.ranges.upper_bound(address);
        if (after != s.ranges.begin() && holds(std::prev(after)->second, address, size)) {
            out = std::prev(after)->second;
            return true;
        }
    }
    HostMapping mapping;
    if (is_discrete() || address + size < address || !find_host_window(address, size, mapping)) {
        return false;
    }
    out = {mapping.begin, mapping.end - mapping.begin, MemoryKind::kPageableHost, mapping.writable};
    return true;
}

uint64_t AddressSpace::generation() const {
    return state().generation.load(std::memory_order_acquire);
}

uint8_t* MemoryView::access_slow(uint64_t address, uint32_t size, bool write, bool atomic, int lane) {
    MemoryRange range;
    // Such an atomic loads its dword first.
    const bool is_whole_dword = size == 4 && address % 4 == 0 && (atomic || !write);
    const char* direction = write ? "write" : "read";
    char text[128];
    if (!AddressSpace::get().find(address, size, range) &&
        !(is_whole_dword && AddressSpace::get().find(address, 1, range))) {
        std::snprintf(text, sizeof text, "illegal %s of %u bytes at 0x%016" PRIx64 ": ", direction,
                      size, address);
        throw Fault(text + describe_nearest(address), lane, "out-of-bounds");
    }
    if (write && !range.writable) {
        std::snprintf(text, sizeof text,
                      "illegal write of %u bytes at 0x%016" PRIx64 ": read-only %s memory", size,
                      address, kind_name(range.kind));
        throw Fault(text, lane, "out-of-bounds");
    }
    cache_[next_] = range;
    next_ = (next_ + 1) % (sizeof cache_ / sizeof *cache_);
    return reinterpret_cast<uint8_t*>(address);
}

}  // namespace asmevo::emulator
