// What tells the dispatches of one kernel apart: geometry and arguments that are no pointers.
#pragma once

#include <stdbool.h>

#include "capture_control.h"

// A hash of it, never 0. The record's arguments are filled.
uint64_t shape_of(const struct capture_record* record, const struct capture_layout* layout,
                  uint64_t layout_index);

bool shape_is_taken(const struct capture_control* control, uint64_t shape);

// Notes a shape as captured; false where the table is full.
bool shape_take(struct capture_control* control, uint64_t shape);
