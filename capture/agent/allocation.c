#include "allocation.h"

#include <stdio.h>

#include "ranges.h"
#include "runtime.h"

enum {
    PAGE_BYTES = 4096,
    MAX_PIECES = 4096,  // of a segment of virtual memory, on each side
};

// Flags of hipHostMalloc and hipExtMallocWithFlags.
enum { FLAG_DEVICE_FINE_GRAINED = 1, FLAG_HOST_COHERENT = 1 << 30 };
static const unsigned kFlagHostNonCoherent = 1u << 31;

static enum coherence coherence_of(const struct hip_table* table, uint64_t pointer,
                                   struct runtime_memory memory) {
    if (memory.type == MEMORY_DEVICE) {
        return memory.flags & FLAG_DEVICE_FINE_GRAINED ? COHERENCE_FINE : COHERENCE_COARSE;
    }
    if (memory.flags & kFlagHostNonCoherent) {
        return COHERENCE_COARSE;
    }
    if (memory.type == MEMORY_HOST && memory.flags & FLAG_HOST_COHERENT) {
        return COHERENCE_FINE;
    }
    switch (runtime_coherency_mode(table, pointer & ~(uint64_t)(PAGE_BYTES - 1), PAGE_BYTES)) {
        case 0:
            return COHERENCE_FINE;
        case 1:
            return COHERENCE_COARSE;
        default:
            return COHERENCE_UNKNOWN;
    }
}

static enum region_kind kind_of(struct runtime_memory memory) {
    switch (memory.type) {
        case MEMORY_HOST:
            return KIND_PINNED_HOST;
        case MEMORY_MANAGED:
            return KIND_MANAGED;
        default:
            return KIND_DEVICE;
    }
}

// Allocators that grow a segment map one piece of memory behind another into addresses that they
// reserved (torch's expandable segments): such pieces belong together, and a tensor may lie across
// two. The runtime tells each on its own.
static void extend_virtual(const struct hip_table* table, uint64_t* base, uint64_t* size) {
    uint64_t next, next_size;
    if (!runtime_is_virtual(table, *base)) {
        return;
    }
    for (int i = 0; i < MAX_PIECES; ++i) {
        if (!runtime_address_range(table, *base + *size, &next, &next_size) ||
            next != *base + *size || !runtime_is_virtual(table, next)) {
            break;
        }
        *size += next_size;
    }
    for (int i = 0; i < MAX_PIECES; ++i) {
        if (!runtime_address_range(table, *base - 1, &next, &next_size) ||
            next + next_size != *base || !runtime_is_virtual(table, next)) {
            break;
        }
        *base = next;
        *size += next_size;
    }
}

bool allocation_find(const struct hip_table* table, uint64_t value, struct capture_region* range) {
    uint64_t base, size;
    if (!runtime_address_range(table, value, &base, &size)) {
        return false;
    }
    extend_virtual(table, &base, &size);
    const struct runtime_memory memory = runtime_memory_of(table, value);
    *range = (struct capture_region){
        .address = base,
        .size = size,
        .kind = kind_of(memory),
        .coherence = coherence_of(table, value, memory),
        .allocation = base,
        .allocation_size = size,
    };
    return true;
}

// Of an allocation that is too large: the ranges that are wanted.
static int add_wanted(const struct reach* reach, const struct capture_region* whole) {
    struct capture_record* record = reach->record;
    const struct capture_control* control = reach->control;
    for (uint32_t i = 0; i < record->absent_count; ++i) {
        if (record->absent[i].address == whole->address) {
            return 0;
        }
    }
    if (record->absent_count == MAX_ABSENT) {
        snprintf(record->reason, sizeof record->reason, "it reaches more than %d large allocations",
                 MAX_ABSENT);
        return -1;
    }
    record->absent[record->absent_count++] = *whole;
    for (uint32_t i = 0; i < control->wanted_range_count && i < MAX_WANTED_RANGES; ++i) {
        const struct capture_wanted_range* wanted = &control->wanted_ranges[i];
        struct capture_region range = *whole;
        range.address = wanted->address;
        range.size = wanted->size;
        if (wanted->layout == reach->layout && wanted->address >= whole->address &&
            wanted->size <= whole->size &&
            wanted->address - whole->address <= whole->size - wanted->size &&
            ranges_add(record, &range) != 0) {
            return -1;
        }
    }
    return 0;
}

int allocation_add(const struct reach* reach, uint64_t value, bool* is_known) {
    struct capture_region whole;
    *is_known = allocation_find(reach->table, value, &whole);
    if (!*is_known) {
        return 0;
    }
    if (reach->control->whole_bytes != 0 && whole.size > reach->control->whole_bytes) {
        return add_wanted(reach, &whole);
    }
    const uint64_t window_bytes = reach->control->window_bytes;
    if (window_bytes != 0) {
        const uint64_t base = whole.address, size = whole.size;
        uint64_t start = value - base > window_bytes ? value - window_bytes : base;
        const uint64_t end =
            base + size - value > window_bytes ? value + window_bytes : base + size;
        start = start & ~(uint64_t)(PAGE_BYTES - 1);
        whole.address = start < base ? base : start;
        whole.size = end - whole.address;
    }
    return ranges_add(reach->record, &whole);
}
