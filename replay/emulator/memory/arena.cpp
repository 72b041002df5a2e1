#include "memory/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace asmevo::emulator {
namespace {

struct Span {
    uint64_t begin, end;
    uint64_t cursor;
};

constexpr uint64_t kTebi = 1ull << 40;

// mmap hands out addresses downwards from 0x7f…, programs and heaps stand at 0x55…: 0x20… is free
// on x86-64 Linux.
struct State {
    std::mutex mutex;
    Span spans[3] = {
        {0x200000000000, 0x200000000000 + 16 * kTebi, 0x200000000000},
        {0x240000000000, 0x240000000000 + 16 * kTebi, 0x240000000000},
        {0x2f0000000000, 0x2f0000000000 + kTebi, 0x2f0000000000},
    };
    std::map<uint64_t, uint64_t> sizes;  // by start
};

State& state() {
    static State& instance = *new State;  // never destroyed: threads may outlive static destructors
    return instance;
}

bool map_exactly(uint64_t address, uint64_t size_bytes, int protection) {
    void* wanted = reinterpret_cast<void*>(address);
    void* got = mmap(wanted, size_bytes, protection,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) {
        return false;
    }
    if (got != wanted) {  // a kernel before 4.17 takes the address as a hint
        munmap(got, size_bytes);
        return false;
    }
    return true;
}

/// The first place at or behind `from` where `size` bytes and a guard page do not touch a mapping
/// of ours; 0 if none.
uint64_t find_gap(const State& s, const Span& span, uint64_t from, uint64_t size, uint64_t unit) {
    uint64_t base = round_up(from, unit);
    while (base < span.end && span.end - base >= size + kPageSize) {
        auto after = s.sizes.upper_bound(base + size);
        if (after == s.sizes.begin()) {
            return base;
        }
        const auto& [start, length] = *std::prev(after);
        if (start + length + kPageSize <= base) {
            return base;
        }
        base = round_up(start + length + kPageSize, unit);
    }
    return 0;
}

}  // namespace

Arena& Arena::get() {
    static Arena instance;
    return instance;
}

uint64_t Arena::place(Area area, uint64_t size_bytes, uint64_t alignment, int protection) {
    State& s = state();
    Span& span = s.spans[static_cast<int>(area)];
    if (size_bytes == 0 || size_bytes > kTebi * 16 || alignment > kTebi) {
        return 0;
    }
    const uint64_t size = round_up(size_bytes, kPageSize);
    const uint64_t unit = std::max(alignment, kPageSize);
    std::lock_guard lock(s.mutex);
    uint64_t from = span.cursor;
    // A foreign mapping inside the area is stepped over; more than a few mean that there is no
    // memory.
    for (int attempt = 0; attempt < 16; ++attempt) {
        uint64_t base = find_gap(s, span, from, size, unit);
        base = base ? base : find_gap(s, span, span.begin, size, unit);
        if (base == 0) {
            return 0;
        }
        if (map_exactly(base, size, protection)) {
            s.sizes[base] = size;
            span.cursor = base + size + kPageSize;
            return base;
        }
        from = base + size + kPageSize;
    }
    return 0;
}

uint64_t Arena::map(Area area, uint64_t size_bytes, uint64_t alignment) {
    return place(area, size_bytes, alignment, PROT_READ | PROT_WRITE);
}

uint64_t Arena::reserve(Area area, uint64_t size_bytes, uint64_t alignment) {
    return place(area, size_bytes, alignment, PROT_NONE);
}

bool Arena::reserve_at(uint64_t address, uint64_t size_bytes) {
    const uint64_t size = round_up(size_bytes, kPageSize);
    if (size_bytes == 0 || size < size_bytes || address == 0 || address % kPageSize != 0 ||
        address + size < address) {
        return false;
    }
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (!map_exactly(address, size, PROT_NONE)) {
        return false;
    }
    s.sizes[address] = size;
    return true;
}

void Arena::unmap(uint64_t base) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (auto found = s.sizes.find(base); found != s.sizes.end()) {
        munmap(reinterpret_cast<void*>(base), found->second);
        s.sizes.erase(found);
    }
}

uint64_t Arena::size_of(uint64_t base) const {
    State& s = state();
    std::lock_guard lock(s.mutex);
    auto found = s.sizes.find(base);
    return found == s.sizes.end() ? 0 : found->second;
}

bool Arena::next(uint64_t address, uint64_t& begin, uint64_t& end) const {
    State& s = state();
    std::lock_guard lock(s.mutex);
    auto after = s.sizes.upper_bound(address);
    if (after != s.sizes.begin() && std::prev(after)->first + std::prev(after)->second > address) {
        --after;
    }
    if (after == s.sizes.end()) {
        return false;
    }
    begin = after->first;
    end = after->first + after->second;
    return true;
}

}  // namespace asmevo::emulator
