// Which memory a kernarg segment reaches.
#pragma once

#include "capture_control.h"

// Fills the record's regions, and the region of each kernarg word. Regions never overlap: pointers
// into one allocation share it. Returns 0, or -1 with the record's reason set.
int reach_regions(struct capture_record* record, const struct capture_layout* layout,
                  uint64_t max_bytes);

// Copies the content of a region. Returns 0, or a HIP error.
int reach_copy(const struct capture_region* region, uint8_t* to);
