// One launch as a hook sees it, whichever function it came through, and what a capture does around
// it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hip_table.h"
#include "session.h"

// hipStreamPerThread: what NULL means to the functions for per-thread default streams.
#define STREAM_PER_THREAD ((void*)2)

struct launch {
    const struct hip_table* table;  // of the copy of the library that was called
    enum hip_slot slot;
    void* function;  // hipFunction_t, or a host symbol
    uint32_t grid[3];   // workgroups, or work-items: see counts_work_items
    uint32_t block[3];
    uint64_t dynamic_lds_bytes;
    void* stream;
    void** params;
    void** extra;
    bool is_host_symbol;
    bool counts_work_items;
    bool is_cooperative;
    int graph_node;  // 1 + its place among the graph's kernel nodes; 0: no graph
    int sample;      // 1 + index of the pair of events around it; 0: not timed
};

// What is known about the launch's function; see function_table.h.
int launch_find_function(struct capture_control* control, const struct launch* launch,
                         enum verdict* verdict);

// Counts the launch, or snapshots what it can reach if it is wanted and can be. True:
// `launch_end` must follow.
bool launch_begin(struct capture_control* control, struct launch* launch);

// Snapshots it again after the launch and hands the record to the controller; or ends its timing.
void launch_end(const struct launch* launch, int result);

// Modules are unloaded: what is known about functions does not hold any more.
void launch_forget_functions(void);
