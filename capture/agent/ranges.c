#include "ranges.h"

#include <stdio.h>

int ranges_find(const struct capture_record* record, uint64_t address) {
    for (uint32_t i = 0; i < record->region_count; ++i) {
        if (address - record->regions[i].address < record->regions[i].size) {
            return (int)i;
        }
    }
    return -1;
}

static void drop(struct capture_record* record, uint32_t index) {
    record->regions[index] = record->regions[--record->region_count];
}

int ranges_add(struct capture_record* record, const struct capture_region* range) {
    struct capture_region added = *range;
    for (uint32_t i = 0; i < record->region_count;) {
        const struct capture_region* other = &record->regions[i];
        const uint64_t end = added.address + added.size, other_end = other->address + other->size;
        if (other->address >= end || other_end <= added.address) {
            ++i;
        } else if (added.allocation != 0 && other->allocation == added.allocation &&
                   other->kind == added.kind) {
            const uint64_t start =
                other->address < added.address ? other->address : added.address;
            added.address = start;
            added.size = (other_end > end ? other_end : end) - start;
            drop(record, i);
            i = 0;  // the larger one may overlap what was passed
        } else if (other->address <= added.address && other_end >= end) {
            return 0;
        } else if (other->address <= added.address) {
            added.address = other_end;
            added.size = end - other_end;
            ++i;
        } else {
            // What lies behind the other one is given up: nobody points there.
            added.size = other->address - added.address;
            ++i;
        }
    }
    if (record->region_count == MAX_REGIONS) {
        snprintf(record->reason, sizeof record->reason, "it reaches more than %d regions",
                 MAX_REGIONS);
        return -1;
    }
    record->regions[record->region_count++] = added;
    return 0;
}

uint64_t ranges_bytes(const struct capture_record* record) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < record->region_count; ++i) {
        total += record->regions[i].size;
    }
    return total;
}
