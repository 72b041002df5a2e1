// Where the device's memory stands in the process: mappings of its own, far from where the kernel
// puts others, each followed by an unmapped page.
#pragma once

#include <cstdint>

namespace asmevo::emulator {

constexpr uint64_t kPageSize = 4096;
constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/// Parts of the arena. Runtime data (code objects, kernargs) has a part of its own, so that a
/// process which replays finds the addresses of captured allocations free.
enum class Area : uint8_t { kDevice, kVirtual, kRuntime };

/// Owner of all mappings of the device. Addresses are handed out in ascending order and not reused
/// before the area is used up, so that a stale pointer does not reach a later allocation.
/// Thread-safe; one per process.
class Arena {
  public:
    static Arena& get();

    /// A readable and writable zeroed mapping of at least `size_bytes`; 0 when there is no memory.
    uint64_t map(Area area, uint64_t size_bytes, uint64_t alignment = kPageSize);
    /// An inaccessible mapping; 0 when there is no room.
    uint64_t reserve(Area area, uint64_t size_bytes, uint64_t alignment = kPageSize);
    /// The same at exactly `address` (page-aligned), in the arena or not; false when something is
    /// mapped there.
    bool reserve_at(uint64_t address, uint64_t size_bytes);
    /// Removes the mapping that starts at `base`.
    void unmap(uint64_t base);
    /// Size in bytes, rounded to pages, of the mapping that starts at `base`; 0 if there is none.
    uint64_t size_of(uint64_t base) const;
    /// The first mapping of the arena that ends after `address`; false if there is none.
    bool next(uint64_t address, uint64_t& begin, uint64_t& end) const;

  private:
    uint64_t place(Area area, uint64_t size_bytes, uint64_t alignment, int protection);
};

}  // namespace asmevo::emulator
