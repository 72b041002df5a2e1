// Mappings of this process, from /proc/self/maps.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapping {
    uintptr_t start, end;
    bool is_readable, is_writable, is_executable;
};

// Finds the mapping that holds `address`. No allocation, no lock; takes as long as the list is.
bool mapping_find(uintptr_t address, struct mapping* mapping);

// Whether all of [address, address + size) is mapped and readable.
bool mapping_covers(uintptr_t address, size_t size);
