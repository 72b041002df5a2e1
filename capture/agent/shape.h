// What tells the dispatches of one kernel apart: geometry and arguments that are no pointers.
#pragma once

#include <stdbool.h>

#include "capture_control.h"

// In the table of taken shapes: never used, and taken back by the controller. No shape is either.
enum { SHAPE_FREE = 0, SHAPE_TAKEN_BACK = 1 };

// A hash of it. The record's arguments are filled.
uint64_t shape_of(const struct capture_record* record, const struct capture_layout* layout,
                  uint64_t layout_index);

bool shape_is_taken(const struct capture_control* control, uint64_t shape);

// Notes a shape as captured. Its place in the table, or -1 where that is full.
int shape_take(struct capture_control* control, uint64_t shape);
