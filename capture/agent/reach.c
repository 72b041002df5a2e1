#define _GNU_SOURCE
#include "reach.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "host_memory.h"
#include "memory_map.h"
#include "ranges.h"
#include "runtime.h"

enum {
    FIRST_ADDRESS = 1 << 16,           // smaller values are numbers
    PAGE_BYTES = 4096,
    PAGEABLE_WINDOW_BYTES = 16 << 20,  // of memory whose true extent nobody tells us
    HIP_ERROR_INVALID_VALUE = 1,
    // Pointers in memory: steps from the arguments, and questions to the runtime.
    SCAN_DEPTH = 3,
    SCAN_QUESTIONS = 4096,
    SCAN_PIECE_BYTES = 64 << 10,
    MAX_PIECES = 4096,  // of a segment of virtual memory, on each side
};

// Flags of hipHostMalloc and hipExtMallocWithFlags.
enum { FLAG_DEVICE_FINE_GRAINED = 1, FLAG_HOST_COHERENT = 1 << 30 };
static const unsigned kFlagHostNonCoherent = 1u << 31;

// In memory, where most words are data: addresses that a 64-bit program can have for allocations.
static const uint64_t kFirstMappedAddress = 1ull << 32, kAddressEnd = 1ull << 48;

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

// What a record's regions are looked for with.
struct reach {
    const struct hip_table* table;
    const struct capture_control* control;
    struct capture_record* record;
    uint64_t layout;  // index
};

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

// The allocation that holds `value`; false if the runtime knows none.
static bool find_allocation(const struct hip_table* table, uint64_t value,
                            struct capture_region* range) {
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

// Whether the allocation that holds `value` is known; what of it is to be captured becomes regions.
// Returns -1 with the record's reason set where they are too many.
static int add_allocation(const struct reach* reach, uint64_t value, bool* is_known) {
    struct capture_region whole;
    *is_known = find_allocation(reach->table, value, &whole);
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
            if (add_allocation(reach, value, &is_known) != 0) {
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

// A search for pointers in memory: places to look at, in the order in which they were found.
struct scan {
    const struct reach* reach;
    uint64_t places[MAX_MEMORY_POINTERS];
    uint32_t place_count, question_count;
};

static void add_place(struct scan* scan, uint64_t place) {
    for (uint32_t i = 0; i < scan->place_count; ++i) {
        if (scan->places[i] == place) {
            return;
        }
    }
    if (scan->place_count < MAX_MEMORY_POINTERS) {
        scan->places[scan->place_count++] = place;
    }
}

// Whether all of what the word leads to may be captured beside what is there.
static bool has_room(const struct reach* reach, uint64_t value) {
    struct capture_region whole;
    if (!find_allocation(reach->table, value, &whole)) {
        return false;
    }
    const struct capture_control* control = reach->control;
    if (control->window_bytes != 0 ||
        (control->whole_bytes != 0 && whole.size > control->whole_bytes)) {
        return true;
    }
    const uint64_t used = ranges_bytes(reach->record);
    return used <= control->max_bytes && whole.size <= control->max_bytes - used;
}

// A word of memory that may be a pointer. What leads to more memory than may be captured is taken
// for data: the word may be one by chance.
static void look_at_word(struct scan* scan, uint64_t at, uint64_t value) {
    struct capture_record* record = scan->reach->record;
    bool is_known = true;
    if (value < kFirstMappedAddress || value >= kAddressEnd ||
        record->memory_pointer_count == MAX_MEMORY_POINTERS) {
        return;
    }
    if (ranges_find(record, value) < 0) {
        if (scan->question_count == SCAN_QUESTIONS) {
            return;
        }
        ++scan->question_count;
        if (!has_room(scan->reach, value) ||
            add_allocation(scan->reach, value, &is_known) != 0 || !is_known) {
            return;
        }
    }
    record->memory_pointers[record->memory_pointer_count++] =
        (struct capture_memory_pointer){at, value};
    add_place(scan, value & ~7ull);
}

static void scan_place(struct scan* scan, uint64_t place) {
    static uint64_t piece[SCAN_PIECE_BYTES / 8];  // whoever scans holds the record
    const struct capture_record* record = scan->reach->record;
    void* stream = (void*)record->stream;
    const int index = ranges_find(record, place);
    if (index < 0 || record->regions[index].kind == KIND_PAGEABLE_HOST) {
        return;
    }
    const struct capture_region* region = &record->regions[index];
    const uint64_t room = region->address + region->size - place;
    const uint64_t limit = scan->reach->control->scan_bytes;
    uint64_t bytes = room < limit ? room : limit;
    bytes = bytes < SCAN_PIECE_BYTES ? bytes / 8 * 8 : SCAN_PIECE_BYTES;
    if (bytes == 0 ||
        runtime_copy(scan->reach->table, piece, place, bytes, stream) != HIP_SUCCESS ||
        runtime_synchronize(scan->reach->table, stream) != HIP_SUCCESS) {
        return;
    }
    for (uint64_t i = 0; i < bytes / 8; ++i) {
        look_at_word(scan, place + 8 * i, piece[i]);
    }
}

static void reach_through_memory(const struct reach* reach, const struct capture_layout* layout,
                                 const bool* is_pointer) {
    static struct scan scan;
    const struct capture_record* record = reach->record;
    scan.reach = reach;
    scan.place_count = scan.question_count = 0;
    for (uint32_t at = 0; at + 8 <= record->kernarg_bytes; at += 4) {
        if (is_pointer[at / 4]) {
            add_place(&scan, (kernarg_value(record, at) + 7) & ~7ull);
        }
    }
    for (uint32_t i = 0; i < layout->variable_count && i < MAX_VARIABLES; ++i) {
        add_place(&scan, (layout->variables[i].address + 7) & ~7ull);
    }
    uint32_t done = 0;
    for (int depth = 0; depth < SCAN_DEPTH; ++depth) {
        for (const uint32_t end = scan.place_count; done < end; ++done) {
            scan_place(&scan, scan.places[done]);
        }
    }
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
