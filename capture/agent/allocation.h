// The allocations that a dispatch's pointers lead to, as regions of its record.
#pragma once

#include <stdbool.h>

#include "capture_control.h"
#include "hip_table.h"

// What a record's regions are looked for with.
struct reach {
    const struct hip_table* table;
    const struct capture_control* control;
    struct capture_record* record;
    uint64_t layout;  // index
};

// The allocation that holds `value`; false if the runtime knows none.
bool allocation_find(const struct hip_table* table, uint64_t value, struct capture_region* range);

// Whether the allocation that holds `value` is known; what of it is to be captured becomes regions.
// Returns -1 with the record's reason set where they are too many.
int allocation_add(const struct reach* reach, uint64_t value, bool* is_known);
