#define _GNU_SOURCE
#include "reach.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "host_memory.h"
#include "memory_map.h"
#include "runtime.h"

enum {
    FIRST_ADDRESS = 1 << 16,           // smaller values are numbers
    PAGEABLE_WINDOW_BYTES = 16 << 20,  // of memory whose true extent nobody tells us
    HIP_ERROR_INVALID_VALUE = 1,
};

static int find_region(const struct capture_record* record, uint64_t address) {
    for (uint32_t i = 0; i < record->region_count; ++i) {
        if (address - record->regions[i].address < record->regions[i].size) {
            return (int)i;
        }
    }
    return -1;
}

static int add_region(struct capture_record* record, uint64_t address, uint64_t size,
                      enum region_kind kind) {
    if (record->region_count == MAX_REGIONS) {
        snprintf(record->reason, sizeof record->reason, "it reaches more than %d allocations",
                 MAX_REGIONS);
        return -1;
    }
    record->regions[record->region_count] =
        (struct capture_region){address, size, 0, 0, (uint64_t)kind};
    return (int)record->region_count++;
}

static enum region_kind kind_of(uint64_t pointer) {
    switch (runtime_memory_type(pointer)) {
        case MEMORY_HOST:
            return KIND_PINNED_HOST;
        case MEMORY_MANAGED:
            return KIND_MANAGED;
        default:
            return KIND_DEVICE;
    }
}

// The allocation that holds the word's value, if the runtime knows one.
static int reach_allocation(struct capture_record* record, uint64_t value, int* region) {
    uint64_t base, size;
    *region = find_region(record, value);
    if (*region < 0 && runtime_address_range(value, &base, &size)) {
        *region = add_region(record, base, size, kind_of(value));
        return *region < 0 ? -1 : 0;
    }
    return 0;
}

// Host memory that the runtime knows nothing of, which a unified-memory device reaches all the
// same: the malloc chunk, or a window of the mapping behind the pointer.
static int reach_host_memory(struct capture_record* record, uint64_t value, int* region) {
    struct mapping mapping;
    *region = find_region(record, value);
    if (*region >= 0 || !mapping_find(value, &mapping) || !mapping.is_readable ||
        mapping.is_executable) {
        return 0;
    }
    const uint64_t chunk_bytes = host_chunk_bytes(value, &mapping);
    uint64_t start = value, end = value + chunk_bytes;
    if (chunk_bytes == 0) {
        start = value & ~4095ull;
        end = mapping.end - start < PAGEABLE_WINDOW_BYTES ? mapping.end
                                                          : start + PAGEABLE_WINDOW_BYTES;
    }
    for (uint32_t i = 0; i < record->region_count; ++i) {
        // None holds `value`: each lies whole before or behind it.
        const uint64_t other = record->regions[i].address;
        const uint64_t other_end = other + record->regions[i].size;
        if (other > value) {
            end = other < end ? other : end;
        } else {
            start = other_end > start ? other_end : start;
        }
    }
    *region = add_region(record, start, end - start, KIND_PAGEABLE_HOST);
    return *region < 0 ? -1 : 0;
}

int reach_regions(struct capture_record* record, const struct capture_layout* layout,
                  uint64_t max_bytes) {
    const uint32_t words = record->kernarg_bytes / 8;
    record->region_count = 0;
    memset(record->word_regions, 0xff, sizeof record->word_regions);
    // Allocations first, so that windows of host memory can be cut where allocations are. Every
    // aligned word is asked about, whatever the metadata says: structures hold pointers, and so do
    // pairs of 32-bit arguments.
    for (int pass = 0; pass < 2; ++pass) {
        for (uint32_t i = 0; i < words; ++i) {
            uint64_t value;
            int region = record->word_regions[i];
            memcpy(&value, record->kernarg + 8 * i, sizeof value);
            if (value < FIRST_ADDRESS || region >= 0 || (pass == 1 && !layout->pointers[i])) {
                continue;
            }
            if ((pass == 0 ? reach_allocation(record, value, &region)
                           : reach_host_memory(record, value, &region)) != 0) {
                return -1;
            }
            record->word_regions[i] = (int16_t)region;
        }
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < record->region_count; ++i) {
        const uint64_t size = record->regions[i].size;
        if (size > max_bytes - total) {
            snprintf(record->reason, sizeof record->reason,
                     "its regions hold more than the limit of %llu bytes",
                     (unsigned long long)max_bytes);
            return -1;
        }
        total += size;
    }
    return 0;
}

int reach_copy(const struct capture_region* region, uint8_t* to) {
    if (region->kind == KIND_PAGEABLE_HOST) {
        return host_copy(to, region->address, region->size) ? HIP_SUCCESS : HIP_ERROR_INVALID_VALUE;
    }
    return runtime_copy(to, region->address, region->size);
}
