// One launch as a hook sees it, whichever function it came through, and what a capture does around
// it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hip_table.h"
#include "session.h"

struct launch {
    enum hip_slot slot;
    void* function;
    uint32_t
        grid[3];  // workgroups; of the Ext and Hcc functions: work-items, see counts_work_items
    uint32_t block[3];
    uint64_t dynamic_lds_bytes;
    void* stream;
    void** params;
    void** extra;
    bool counts_work_items;
};

// Snapshots what the launch can reach, if it is wanted and can be. True: the record is held, and
// `launch_captured` must follow.
bool launch_begin(struct capture_control* control, const struct launch* launch);

// Snapshots it again after the launch and hands the record to the controller.
void launch_captured(const struct launch* launch, int result);

// Modules are unloaded: what is known about functions does not hold any more.
void launch_forget_functions(void);
