// Pageable host memory: what the kernel says is mapped in this process, without the device's own mappings.
#pragma once

#include <cstdint>

namespace asmevo::emulator {

struct HostMapping {
    uint64_t begin = 0, end = 0;
    bool writable = false;
};

/// The readable host mapping holding [address, address + size). Looks into a cached copy of /proc/self/maps, which is
/// read again when the address is not found in it or no longer mapped. Thread-safe.
bool find_host_mapping(uint64_t address, uint64_t size, HostMapping& out);

/// Forgets the cached copy: the device's own mappings changed.
void forget_host_mappings();

}  // namespace asmevo::emulator
