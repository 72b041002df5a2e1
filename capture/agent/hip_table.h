// The HIP dispatch table of a mapped libamdhip64.so: find it, swap slots of it, put them back.
//
// ROCm's exported hip* functions are thunks over one table of function pointers, whose layout is
// ABI: slots are only ever appended (hip_api_trace.hpp of ROCm's CLR). Swapping a slot is one
// atomic store and harms no thread that is inside the thunk, which patching its code would.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hip_thunk.h"

#ifdef __cplusplus
extern "C" {
#endif

// Index of a function in the table; its slot stands at byte offset 8 + 8 * index.
enum hip_slot {
    HIP_SLOT_CONFIGURE_CALL = 13,
    HIP_SLOT_EVENT_CREATE = 76,
    HIP_SLOT_EVENT_DESTROY = 78,
    HIP_SLOT_EVENT_ELAPSED_TIME = 79,
    HIP_SLOT_EVENT_QUERY = 80,
    HIP_SLOT_EVENT_RECORD = 81,
    HIP_SLOT_EXT_LAUNCH_KERNEL = 84,
    HIP_SLOT_FREE = 90,
    HIP_SLOT_FUNC_GET_ATTRIBUTE = 95,
    HIP_SLOT_GET_DEVICE = 102,
    HIP_SLOT_GET_LAST_ERROR = 109,
    HIP_SLOT_GRAPH_DESTROY = 136,
    HIP_SLOT_GRAPH_EXEC_DESTROY = 143,
    HIP_SLOT_GRAPH_EXEC_KERNEL_NODE_SET_PARAMS = 147,
    HIP_SLOT_GRAPH_EXEC_UPDATE = 153,
    HIP_SLOT_GRAPH_GET_NODES = 155,
    HIP_SLOT_GRAPH_INSTANTIATE = 159,
    HIP_SLOT_GRAPH_INSTANTIATE_WITH_FLAGS = 160,
    HIP_SLOT_GRAPH_KERNEL_NODE_GET_PARAMS = 163,
    HIP_SLOT_GRAPH_LAUNCH = 166,
    HIP_SLOT_GRAPH_NODE_GET_DEPENDENCIES = 177,
    HIP_SLOT_GRAPH_NODE_GET_ENABLED = 179,
    HIP_SLOT_GRAPH_NODE_GET_TYPE = 180,
    HIP_SLOT_GRAPH_NODE_SET_ENABLED = 181,
    HIP_SLOT_HOST_REGISTER = 198,
    HIP_SLOT_HOST_UNREGISTER = 199,
    HIP_SLOT_KERNEL_NAME_REF = 208,
    HIP_SLOT_KERNEL_NAME_REF_BY_PTR = 209,
    HIP_SLOT_LAUNCH_BY_PTR = 210,
    HIP_SLOT_LAUNCH_COOPERATIVE_KERNEL = 211,
    HIP_SLOT_LAUNCH_KERNEL = 214,
    HIP_SLOT_MALLOC = 215,
    HIP_SLOT_MEM_GET_ADDRESS_RANGE = 233,
    HIP_SLOT_MEM_RANGE_GET_ATTRIBUTE = 253,
    HIP_SLOT_MEM_RELEASE = 255,
    HIP_SLOT_MEM_RETAIN_ALLOCATION_HANDLE = 256,
    HIP_SLOT_MEMCPY = 259,
    HIP_SLOT_MEMCPY_ASYNC = 268,
    HIP_SLOT_MODULE_GET_FUNCTION = 303,
    HIP_SLOT_MODULE_LAUNCH_COOPERATIVE_KERNEL = 306,
    HIP_SLOT_MODULE_LAUNCH_KERNEL = 308,
    HIP_SLOT_MODULE_LOAD = 309,
    HIP_SLOT_MODULE_LOAD_DATA = 310,
    HIP_SLOT_MODULE_LOAD_DATA_EX = 311,
    HIP_SLOT_MODULE_UNLOAD = 316,
    HIP_SLOT_PEEK_AT_LAST_ERROR = 320,
    HIP_SLOT_POINTER_GET_ATTRIBUTES = 322,
    HIP_SLOT_SETUP_ARGUMENT = 329,
    HIP_SLOT_STREAM_IS_CAPTURING = 344,
    HIP_SLOT_STREAM_SYNCHRONIZE = 346,
    HIP_SLOT_THREAD_EXCHANGE_STREAM_CAPTURE_MODE = 381,
    HIP_SLOT_EXT_MODULE_LAUNCH_KERNEL = 388,
    HIP_SLOT_HCC_MODULE_LAUNCH_KERNEL = 389,
    HIP_SLOT_LAUNCH_COOPERATIVE_KERNEL_SPT = 418,
    HIP_SLOT_LAUNCH_KERNEL_SPT = 419,
    HIP_SLOT_GRAPH_LAUNCH_SPT = 420,
    HIP_SLOT_GRAPH_INSTANTIATE_WITH_PARAMS = 438,
    HIP_SLOT_GET_FUNC_BY_SYMBOL = 444,
    HIP_SLOT_LAUNCH_KERNEL_EX_C = 474,
    HIP_SLOT_DRV_LAUNCH_KERNEL_EX = 475,
    HIP_SLOT_MODULE_LOAD_FAT_BINARY = 486,
    HIP_SLOT_LIBRARY_UNLOAD = 498,
};

struct hip_table {
    void** slots;            // slots[i] is the function with index i
    size_t count;            // slots the library says it has
    void* library;           // dlopen handle, held for ever
    struct hip_thunk thunk;  // how its functions find the table
    char path[4096];         // of the mapped file
};

// Finds the table of the library behind `library` (a dlopen handle). Decodes the exported thunks of
// several functions and refuses unless each of them reads the documented slot of one and the same
// table; nothing is written. Returns 0, or -1 with one line in `error`.
int hip_table_find(struct hip_table* table, void* library, char* error, size_t error_bytes);

// Whether the library exports the function as a thunk over its documented slot of this table.
bool hip_table_has(const struct hip_table* table, enum hip_slot slot);

// Name of the function of a slot, or NULL for an index that this file does not know.
const char* hip_slot_name(enum hip_slot slot);

// The function that a slot holds now.
void* hip_slot_get(const struct hip_table* table, enum hip_slot slot);

// Puts `hook` into a slot. `*original` is set before the hook can be reached.
void hip_slot_swap(const struct hip_table* table, enum hip_slot slot, void* hook, void** original);

// Puts `original` back if the slot still holds `hook`; returns 0. Returns -1 and changes nothing
// where somebody else hooked after us.
int hip_slot_restore(const struct hip_table* table, enum hip_slot slot, void* hook, void* original);

#ifdef __cplusplus
}
#endif
