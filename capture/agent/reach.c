#define _GNU_SOURCE
#include "reach.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "allocation.h"
#include "host_memory.h"
#include "memory_map.h"
#include "pointer_scan.h"
#include "ranges.h"
#include "runtime.h"

enum {
    FIRST_ADDRESS = 1 << 16,  // smaller values are numbers
    PAGE_BYTES = 4096,
    PAGEABLE_WINDOW_BYTES = 16 << 20,  // of memory whose true extent nobody tells us
    HIP_ERROR_INVALID_VALUE = 1,
};

// Memory of the host that is in no allocation of the runtime's: an unregistered malloc chunk, or
// a window of the mapping behind the pointer.
static int add_host_memory(struct capture_record* record, uint64_t value) {
    struct mapping mapping;
    if (ranges_find(record, value) >= 0 || !mapping_find(value, &mapping) || !mapping.is_readable ||
        mapping.is_executable) {
        return 0;
    }
    const uint64_t chunk_bytes = host_chunk_bytes(value, &mapping);
    uint64_t start = value, end = value + chunk_bytes;
    if (chunk_bytes == 0) {
        start = value & ~(uint64_t)(PAGE_BYTES - 1);
        end = mapping.end - start < PAGEABLE_WINDOW_BYTES ? mapping.end
                                                          : start + PAGEABLE_WINDOW_BYTES;
    }
    const struct capture_region range = {
        .address = start, .size = end - start, .kind = KIND_PAGEABLE_HOST};
    return ranges_add(record, &range);
}

static uint64_t kernarg_value(const struct capture_record* record, uint32_t offset) {
    uint64_t value;
    memcpy(&value, record->kernarg + offset, sizeof value);
    return value;
}

// Every 8 bytes are asked about, whatever the metadata says: structures hold pointers, and so do
// pairs of 32-bit arguments, at any multiple of 4.
static int reach_arguments(const struct reach* reach, bool* is_pointer) {
    const struct capture_record* record = reach->record;
    uint32_t taken_end = 0;  // a half of a pointer starts no other
    for (uint32_t pass = 0; pass < 2; ++pass) {
        for (uint32_t at = pass * 4; at + 8 <= record->kernarg_bytes; at += 8) {
            const uint64_t value = kernarg_value(record, at);
            const bool is_half = pass == 1 && (is_pointer[at / 4 - 1] || is_pointer[at / 4 + 1] ||
                                               at < taken_end);
            bool is_known = false;
            if (value < FIRST_ADDRESS || is_half) {
                continue;
            }
            if (allocation_add(reach, value, &is_known) != 0) {
                return -1;
            }
            if (is_known) {
                is_pointer[at / 4] = true;
                taken_end = pass == 1 ? at + 8 : 0;
            }
        }
    }
    return 0;
}

static int reach_variables(struct capture_record* record, const struct capture_layout* layout) {
    for (uint32_t i = 0; i < layout->variable_count && i < MAX_VARIABLES; ++i) {
        const struct capture_region range = {
            .address = layout->variables[i].address,
            .size = layout->variables[i].size,
            .kind = KIND_MODULE_GLOBAL,
            .coherence = COHERENCE_COARSE,
            .variable = i,
        };
        if (range.size != 0 && ranges_add(record, &range) != 0) {
            return -1;
        }
    }
    return 0;
}

static int reach_host_arguments(struct capture_record* record, const struct capture_layout* layout,
                                bool* is_pointer) {
    for (uint32_t at = 0; at + 8 <= record->kernarg_bytes; at += 8) {
        const uint64_t value = kernarg_value(record, at);
        if (value < FIRST_ADDRESS || is_pointer[at / 4] || !layout->pointers[at / 8]) {
            continue;
        }
        if (add_host_memory(record, value) != 0) {
            return -1;
        }
        is_pointer[at / 4] = ranges_find(record, value) >= 0;
    }
    return 0;
}

static void reach_through_memory(const struct reach* reach, const struct capture_layout* layout,
                                 const bool* is_pointer) {
    static uint64_t places[MAX_KERNARG_BYTES / 4 + MAX_VARIABLES];
    uint32_t count = 0;
    for (uint32_t at = 0; at + 8 <= reach->record->kernarg_bytes; at += 4) {
        if (is_pointer[at / 4]) {
            places[count++] = kernarg_value(reach->record, at);
        }
    }
    for (uint32_t i = 0; i < layout->variable_count && i < MAX_VARIABLES; ++i) {
        places[count++] = layout->variables[i].address;
    }
    pointer_scan(reach, places, count);
}

int reach_regions(const struct hip_table* table, struct capture_record* record,
                  const struct capture_layout* layout, const struct capture_control* control) {
    const struct reach reach = {table, control, record, (uint64_t)(layout - control->layouts)};
    static bool is_pointer[MAX_KERNARG_BYTES / 4 + 2];
    memset(is_pointer, 0, sizeof is_pointer);
    record->region_count = record->memory_pointer_count = record->absent_count = 0;
    // Allocations before host memory, so that windows of it can be cut where allocations are.
    if (reach_variables(record, layout) != 0 ||
        reach_arguments(&reach, is_pointer) != 0 ||
        reach_host_arguments(record, layout, is_pointer) != 0) {
        return -1;
    }
    if (control->scan_bytes != 0) {
        reach_through_memory(&reach, layout, is_pointer);
    }
    for (uint32_t i = 0; i < MAX_KERNARG_BYTES / 4; ++i) {
        record->pointer_regions[i] = -1;
        if (4 * i + 8 <= record->kernarg_bytes && is_pointer[i]) {
            record->pointer_regions[i] = (int16_t)ranges_find(record, kernarg_value(record, 4 * i));
        }
    }
    if (ranges_bytes(record) > control->max_bytes) {
        snprintf(record->reason, sizeof record->reason,
                 "its regions hold more than the limit of %llu bytes",
                 (unsigned long long)control->max_bytes);
        return -1;
    }
    return 0;
}

// Piece by piece: a copy across two pieces of a segment is more than a runtime may take.
static int copy_pieces(const struct hip_table* table, const struct capture_region* region,
                       uint8_t* to, void* stream) {
    int error = HIP_SUCCESS;
    for (uint64_t at = 0; at < region->size && error == HIP_SUCCESS;) {
        uint64_t base, size, bytes = region->size - at;
        if (runtime_address_range(table, region->address + at, &base, &size) &&
            base + size - (region->address + at) < bytes) {
            bytes = base + size - (region->address + at);
        }
        error = runtime_copy(table, to + at, region->address + at, bytes, stream);
        at += bytes;
    }
    return error;
}

int reach_copy(const struct hip_table* table, const struct capture_region* region, uint8_t* to,
               void* stream) {
    if (region->kind == KIND_PAGEABLE_HOST) {
        return host_copy(to, region->address, region->size) ? HIP_SUCCESS : HIP_ERROR_INVALID_VALUE;
    }
    if (region->kind == KIND_MODULE_GLOBAL) {
        return runtime_copy(table, to, region->address, region->size, stream);
    }
    return copy_pieces(table, region, to, stream);
}
