#include "snapshot.h"

#include <stdio.h>
#include <string.h>

#include "reach.h"
#include "runtime.h"

// HIP_LAUNCH_PARAM_* of the `extra` array.
#define LAUNCH_PARAM_BUFFER_POINTER ((void*)1)
#define LAUNCH_PARAM_BUFFER_SIZE ((void*)2)
#define LAUNCH_PARAM_END ((void*)3)

enum { REGION_ALIGNMENT = 4096 };

int snapshot_refuse(struct capture_record* record, const char* reason) {
    snprintf(record->reason, sizeof record->reason, "%s", reason);
    return -1;
}

static int count_workgroups(struct capture_record* record) {
    for (int i = 0; i < 3; ++i) {
        if (record->block[i] == 0 || record->grid[i] % record->block[i] != 0) {
            return snapshot_refuse(record, "its work-items are no multiple of the workgroup");
        }
        record->grid[i] /= record->block[i];
    }
    return 0;
}

static int gather_params(struct capture_record* record, const struct capture_layout* layout,
                         void** params) {
    for (uint32_t i = 0; i < layout->argument_count && i < MAX_ARGUMENTS; ++i) {
        const uint32_t offset = layout->arguments[i].offset, size = layout->arguments[i].size;
        if (size > record->kernarg_bytes || offset > record->kernarg_bytes - size) {
            return snapshot_refuse(record, "its layout is inconsistent");
        }
        if (params[i] == NULL) {
            return snapshot_refuse(record,
                                   "it was launched with fewer parameters than the kernel has");
        }
        memcpy(record->kernarg + offset, params[i], size);
    }
    return 0;
}

static int gather_extra(struct capture_record* record, void** extra) {
    const void* buffer = NULL;
    size_t bytes = 0;
    for (int i = 0; i < 8 && extra[i] != LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == LAUNCH_PARAM_BUFFER_POINTER) {
            buffer = extra[i + 1];
        } else if (extra[i] == LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1] != NULL) {
            bytes = *(const size_t*)extra[i + 1];
        } else {
            return snapshot_refuse(record, "its `extra` list is not understood");
        }
    }
    if (buffer == NULL || bytes < record->kernarg_bytes) {
        return snapshot_refuse(
            record, "its argument buffer is shorter than the kernel's explicit arguments");
    }
    memcpy(record->kernarg, buffer, record->kernarg_bytes);
    return 0;
}

int snapshot_arguments(struct capture_record* record, const struct capture_layout* layout,
                       const struct launch* launch) {
    if (launch->counts_work_items && count_workgroups(record) != 0) {
        return -1;
    }
    record->kernarg_bytes = layout->kernarg_bytes;
    if (record->kernarg_bytes > MAX_KERNARG_BYTES) {
        return snapshot_refuse(record, "its layout is inconsistent");
    }
    memset(record->kernarg, 0, record->kernarg_bytes);
    if (record->kernarg_bytes == 0) {
        return 0;
    }
    if (launch->params != NULL) {
        return gather_params(record, layout, launch->params);
    }
    if (launch->extra != NULL) {
        return gather_extra(record, launch->extra);
    }
    return snapshot_refuse(record, "it was launched without arguments");
}

// Lays the contents out in the data memory: true if they fit.
static bool place_contents(struct capture_record* record) {
    const uint64_t copies = record->has_after ? 2 : 1;
    uint64_t at = 0;
    for (uint32_t i = 0; i < record->region_count; ++i) {
        struct capture_region* region = &record->regions[i];
        const uint64_t step =
            (region->size + REGION_ALIGNMENT - 1) / REGION_ALIGNMENT * REGION_ALIGNMENT;
        region->before = at;
        region->after = record->has_after ? at + step : at;
        at += copies * step;
    }
    record->need_bytes = at;
    return at <= g_data_bytes;
}

static int copy_contents(struct capture_record* record, const struct launch* launch,
                         bool is_after) {
    for (uint32_t i = 0; i < record->region_count; ++i) {
        const struct capture_region* region = &record->regions[i];
        const int error =
            reach_copy(launch->table, region,
                       g_data + (is_after ? region->after : region->before), launch->stream);
        if (error != HIP_SUCCESS) {
            snprintf(record->reason, sizeof record->reason,
                     "%llu bytes at %#llx cannot be copied (error %d)",
                     (unsigned long long)region->size, (unsigned long long)region->address, error);
            return -1;
        }
    }
    if (runtime_synchronize(launch->table, launch->stream) != HIP_SUCCESS) {
        return snapshot_refuse(record, "its memory cannot be copied");
    }
    return 0;
}

enum record_status snapshot_before(struct capture_control* control,
                                   const struct capture_layout* layout,
                                   const struct launch* launch) {
    struct capture_record* record = &control->record;
    record->has_after = control->takes_after;
    // What memory holds is right only once everything before the launch is done.
    if (runtime_synchronize(launch->table, launch->stream) != HIP_SUCCESS) {
        snapshot_refuse(record, "its stream cannot be synchronized");
        return RECORD_REFUSED;
    }
    if (reach_regions(launch->table, record, layout, control) != 0) {
        return RECORD_REFUSED;
    }
    if (!place_contents(record)) {
        return RECORD_NEED_SPACE;
    }
    return copy_contents(record, launch, false) == 0 ? RECORD_CAPTURED : RECORD_REFUSED;
}

int snapshot_after(struct capture_record* record, const struct launch* launch) {
    if (runtime_synchronize(launch->table, launch->stream) != HIP_SUCCESS) {
        return snapshot_refuse(record, "the kernel failed");
    }
    return record->has_after ? copy_contents(record, launch, true) : 0;
}
