// The HIP functions that a capture calls, through their slots and so past our own hooks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HIP_SUCCESS = 0 };

// hipMemoryType of ROCm 6 and later.
enum { MEMORY_UNREGISTERED = 0, MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_MANAGED = 3 };

const char* runtime_kernel_name(void* function);
// -1 where the runtime does not know it.
int runtime_function_attribute(void* function, int attribute);
bool runtime_is_stream_capturing(void* stream);
int runtime_synchronize(void* stream);
int runtime_copy(void* to, uint64_t from, size_t size);
bool runtime_address_range(uint64_t pointer, uint64_t* base, uint64_t* size);
// hipMemoryType, MEMORY_UNREGISTERED where the runtime does not know the pointer.
int runtime_memory_type(uint64_t pointer);

// Around our own calls: they must not show in the program's error state, nor break a stream capture
// that another thread has open. `enter` is false where the thread has an error pending that ours
// would hide.
struct runtime_scope {
    int capture_mode;
};
bool runtime_enter(struct runtime_scope* scope);
void runtime_leave(struct runtime_scope* scope);
