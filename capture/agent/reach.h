// Which memory a dispatch reaches: what its arguments point to, what pointers there point to, and
// the variables of its code object.
#pragma once

#include "capture_control.h"
#include "hip_table.h"

// Fills the record's regions and pointers. Regions never overlap: pointers into one allocation
// share it. Returns 0, or -1 with the record's reason set.
int reach_regions(const struct hip_table* table, struct capture_record* record,
                  const struct capture_layout* layout, const struct capture_control* control);

// Copies the content of a region in the order of the stream, which must be synchronised before it
// is read. Returns 0, or a HIP error.
int reach_copy(const struct hip_table* table, const struct capture_region* region, uint8_t* to,
               void* stream);
