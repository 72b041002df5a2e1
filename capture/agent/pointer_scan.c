#include "pointer_scan.h"

#include "ranges.h"
#include "runtime.h"

// Steps from the first places, questions to the runtime, and bytes looked at behind one pointer.
enum { DEPTH = 3, MAX_QUESTIONS = 4096, PIECE_BYTES = 64 << 10 };

// In memory, where most words are data: addresses that a 64-bit program can have for allocations.
static const uint64_t kFirstMappedAddress = 1ull << 32, kAddressEnd = 1ull << 48;

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
    if (!allocation_find(reach->table, value, &whole)) {
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
        if (scan->question_count == MAX_QUESTIONS) {
            return;
        }
        ++scan->question_count;
        if (!has_room(scan->reach, value) ||
            allocation_add(scan->reach, value, &is_known) != 0 || !is_known) {
            return;
        }
    }
    record->memory_pointers[record->memory_pointer_count++] =
        (struct capture_memory_pointer){at, value};
    add_place(scan, value & ~7ull);
}

static void scan_place(struct scan* scan, uint64_t place) {
    static uint64_t piece[PIECE_BYTES / 8];  // whoever scans holds the record
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
    bytes = bytes < PIECE_BYTES ? bytes / 8 * 8 : PIECE_BYTES;
    if (bytes == 0 ||
        runtime_copy(scan->reach->table, piece, place, bytes, stream) != HIP_SUCCESS ||
        runtime_synchronize(scan->reach->table, stream) != HIP_SUCCESS) {
        return;
    }
    for (uint64_t i = 0; i < bytes / 8; ++i) {
        look_at_word(scan, place + 8 * i, piece[i]);
    }
}

void pointer_scan(const struct reach* reach, const uint64_t* places, uint32_t count) {
    static struct scan scan;  // whoever scans holds the record
    scan.reach = reach;
    scan.place_count = scan.question_count = 0;
    for (uint32_t i = 0; i < count; ++i) {
        add_place(&scan, (places[i] + 7) & ~7ull);
    }
    uint32_t done = 0;
    for (int depth = 0; depth < DEPTH; ++depth) {
        for (const uint32_t end = scan.place_count; done < end; ++done) {
            scan_place(&scan, scan.places[done]);
        }
    }
}
