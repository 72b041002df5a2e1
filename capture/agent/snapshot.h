// The kernel arguments of a launch, and the contents of the memory that it reaches.
#pragma once

#include "launch.h"

// Fills the record's grid and kernarg. Returns 0, or -1 with the record's reason set.
int snapshot_arguments(struct capture_record* record, const struct capture_layout* layout,
                       const struct launch* launch);

// Copies what the launch reaches, before it; the record's arguments are filled.
enum record_status snapshot_before(struct capture_control* control,
                                   const struct capture_layout* layout,
                                   const struct launch* launch);

// Copies it again. Returns 0, or -1 with the record's reason set.
int snapshot_after(struct capture_record* record, const struct launch* launch);

int snapshot_refuse(struct capture_record* record, const char* reason);
