// Host memory that nobody told the runtime about: how far it goes, and copies that cannot fault.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory_map.h"

// Copies mapped memory of this process. False, and no fault, where some of it is not mapped (any
// more).
bool host_copy(void* to, uint64_t from, size_t size);

// Bytes from `pointer` to the end of its malloc chunk; 0 where no chunk starts at `pointer`, as far
// as glibc's bookkeeping around it shows. `mapping` is the one that holds the pointer.
uint64_t host_chunk_bytes(uint64_t pointer, const struct mapping* mapping);
