// The device's view of memory. Device addresses are host addresses: an allocation is a host mapping in the
// device's own arena, so a pointer means the same on both sides, as on a unified-memory APU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asmevo::emulator {

enum class MemoryKind : uint8_t { kDevice, kPinnedHost, kManaged, kModule, kKernarg, kVirtual, kPageableHost };

struct MemoryRange {
    uint64_t base = 0;
    uint64_t size = 0;   // bytes the program asked for: the strict bound
    MemoryKind kind = MemoryKind::kDevice;
    bool writable = true;
};

/// All ranges the device may touch. Thread-safe; one per process. Implemented in memory/address_space.cpp.
class AddressSpace {
  public:
    static AddressSpace& get();

    void add(const MemoryRange& range);
    void remove(uint64_t base);

    /// Finds the range holding [address, address + size). When no registered range does and the device is not
    /// discrete, mapped host memory is looked up and returned as kPageableHost. Returns false otherwise.
    bool find(uint64_t address, uint64_t size, MemoryRange& out) const;

    /// Changes whenever ranges do: caches compare it.
    uint64_t generation() const;
};

/// A wave's cached look-ups: the hot path of global accesses. Not thread-safe; one per wave.
class MemoryView {
  public:
    /// Host pointer for an access of `size` bytes, or throws Fault naming the address, the size and the nearest
    /// allocation. `lane` goes into the fault.
    uint8_t* access(uint64_t address, uint32_t size, bool write, int lane) {
        for (const MemoryRange& range : cache_) {
            if (address - range.base < range.size && range.size - (address - range.base) >= size &&
                (range.writable || !write)) {
                return reinterpret_cast<uint8_t*>(address);
            }
        }
        return access_slow(address, size, write, false, lane);
    }

    /// The same for an atomic operation, which may change the whole of a dword that an allocation ends in: compilers
    /// make atomics of 8 and 16 bits of it (LLVM's AtomicExpand; Triton's fp16 additions, by a packed one).
    uint8_t* access_atomic(uint64_t address, uint32_t size, int lane) {
        return is_cached(address, size, true) ? reinterpret_cast<uint8_t*>(address)
                                              : access_slow(address, size, true, true, lane);
    }

    /// Whether all of [address, address + size) lies in one range looked up before: then every access in it is legal.
    bool is_cached(uint64_t address, uint64_t size, bool write) const {
        for (const MemoryRange& range : cache_) {
            if (address - range.base < range.size && range.size - (address - range.base) >= size &&
                (range.writable || !write)) {
                return true;
            }
        }
        return false;
    }

  private:
    uint8_t* access_slow(uint64_t address, uint32_t size, bool write, bool atomic, int lane);

    MemoryRange cache_[4];
    unsigned next_ = 0;
};

}  // namespace asmevo::emulator
