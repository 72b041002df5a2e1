// Pageable host memory: what the kernel says is mapped in this process, without the device's own
// mappings.
#pragma once

#include <cstdint>

namespace asmevo::emulator {

struct HostMapping {
    uint64_t begin = 0, end = 0;
    bool writable = false;
};

/// The whole readable host mapping that holds [address, address + size), asked of the kernel.
/// Thread-safe.
bool find_host_mapping(uint64_t address, uint64_t size, HostMapping& out);

/// A part of it, some megabytes around the address: fast enough for a kernel's accesses. Uses a
/// remembered copy of /proc/self/maps, whose parts are verified on first use after
/// distrust_host_mappings, and which is read again when the address is not in it or no longer
/// mapped. Thread-safe.
bool find_host_window(uint64_t address, uint64_t size, HostMapping& out);

/// What was verified is to be verified again: the program may have unmapped memory since. Cheap;
/// called before each launch and each question about a pointer.
void distrust_host_mappings();

/// Forgets all: the device took addresses that a remembered mapping may name.
void forget_host_mappings();

}  // namespace asmevo::emulator
