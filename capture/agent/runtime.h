// The HIP functions that a capture calls, through the slots of one copy of the library and so past
// our own hooks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hip_table.h"

enum { HIP_SUCCESS = 0 };

// hipMemoryType of ROCm 6 and later.
enum { MEMORY_UNREGISTERED = 0, MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_MANAGED = 3 };

struct runtime_memory {
    int type;
    unsigned flags;  // of the allocation, as hipHostMalloc and hipExtMallocWithFlags take them
};

const char* runtime_kernel_name(const struct hip_table* table, void* function);
const char* runtime_symbol_name(const struct hip_table* table, void* symbol, void* stream);
// The hipFunction_t behind a host symbol, or NULL.
void* runtime_symbol_function(const struct hip_table* table, void* symbol);
// -1 where the runtime does not know it.
int runtime_function_attribute(const struct hip_table* table, void* function, int attribute);
// -1 where the runtime does not say.
int runtime_device(const struct hip_table* table);

bool runtime_is_stream_capturing(const struct hip_table* table, void* stream);
int runtime_synchronize(const struct hip_table* table, void* stream);
// Copies in the stream's order; done once the stream is synchronised. A copy on the null stream
// instead would break captures that other threads have open.
int runtime_copy(const struct hip_table* table, void* to, uint64_t from, size_t size, void* stream);

// Registers host memory with the runtime, or takes that back.
void runtime_pin(const struct hip_table* table, void* memory, size_t size, bool is_pinned);

bool runtime_address_range(const struct hip_table* table, uint64_t pointer, uint64_t* base,
                           uint64_t* size);
// Whether the address is that of a mapping of the virtual memory API.
bool runtime_is_virtual(const struct hip_table* table, uint64_t pointer);
// MEMORY_UNREGISTERED where the runtime does not know the pointer.
struct runtime_memory runtime_memory_of(const struct hip_table* table, uint64_t pointer);
// hipMemRangeCoherencyMode (0 fine, 1 coarse, 2 mixed), or -1.
int runtime_coherency_mode(const struct hip_table* table, uint64_t pointer, size_t size);

bool runtime_event_create(const struct hip_table* table, void** event);
bool runtime_event_record(const struct hip_table* table, void* event, void* stream);
bool runtime_event_is_done(const struct hip_table* table, void* event);
bool runtime_event_elapsed(const struct hip_table* table, float* ms, void* start, void* stop);

// Around our own calls: they must not show in the program's error state, nor break a stream capture
// that another thread has open. `enter` is false where the thread has an error pending that ours
// would hide.
struct runtime_scope {
    int capture_mode;
};
bool runtime_enter(const struct hip_table* table, struct runtime_scope* scope);
void runtime_leave(const struct hip_table* table, struct runtime_scope* scope);
