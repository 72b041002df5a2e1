// Decodes the exported functions of libamdhip64.so far enough to find the dispatch table behind
// them.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum hip_thunk_kind {
    HIP_THUNK_GETTER,          // calls a function that returns the table
    HIP_THUNK_POINTER,         // loads a variable that points to the table
    HIP_THUNK_GETTER_POINTER,  // calls the function that a variable points to (built with -fno-plt)
    HIP_THUNK_TABLE,           // addresses the table itself
};

struct hip_thunk {
    enum hip_thunk_kind kind;
    uintptr_t address;     // of the getter, the variable or the table
    int32_t displacement;  // of the slot within the table
};

// Decodes a function of which `limit` bytes may be read. Returns 0, or -1 where it is not a thunk
// of a known shape.
int hip_thunk_decode(const uint8_t* code, size_t limit, struct hip_thunk* thunk);
