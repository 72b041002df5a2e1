// The regions of a record while they are being found: ranges of memory that never overlap.
#pragma once

#include "capture_control.h"

// Index of the region that holds the address, or -1.
int ranges_find(const struct capture_record* record, uint64_t address);

// Adds a range. Where it overlaps regions of the same allocation, they become one; where it
// overlaps others, it is cut. Indices may change. Returns 0, or -1 with the record's reason set.
int ranges_add(struct capture_record* record, const struct capture_region* range);

uint64_t ranges_bytes(const struct capture_record* record);
