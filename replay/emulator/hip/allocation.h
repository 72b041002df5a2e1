// Device allocations: what hipMalloc and its relatives hand out.
#pragma once

#include <cstdint>

#include "hip/types.h"
#include "memory/address_space.h"
#include "memory/arena.h"

namespace asmevo::emulator::hip {

/// Allocates `size_bytes` of `kind`, bounded exactly by that size; 0 when there is no memory.
uint64_t allocate(uint64_t size_bytes, MemoryKind kind, unsigned flags = 0,
                  uint64_t alignment = kPageSize);
/// Frees what allocate returned; false when `address` is not the start of an allocation.
bool release(uint64_t address);
/// The same for who holds lock_launches().
bool release_in_launch(uint64_t address);
/// hipFree: null, an allocation, or one of a graph's.
Error free_memory(void* pointer);
/// Flags given at allocation or registration of the range that starts at `base`; 0 if unknown.
unsigned allocation_flags(uint64_t base);
/// Bytes allocated at present.
uint64_t allocated_bytes();

}  // namespace asmevo::emulator::hip
