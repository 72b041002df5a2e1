#include "shape.h"

enum { MAX_PROBES = 32 };

// FNV-1a, 64 bits.
static uint64_t add(uint64_t hash, const void* data, size_t size) {
    const uint8_t* bytes = data;
    for (size_t i = 0; i < size; ++i) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

uint64_t shape_of(const struct capture_record* record, const struct capture_layout* layout,
                  uint64_t layout_index) {
    uint64_t hash = add(0xcbf29ce484222325u, &layout_index, sizeof layout_index);
    hash = add(hash, record->grid, sizeof record->grid);
    hash = add(hash, record->block, sizeof record->block);
    hash = add(hash, &record->dynamic_lds_bytes, sizeof record->dynamic_lds_bytes);
    for (uint32_t i = 0; i < layout->argument_count && i < MAX_ARGUMENTS; ++i) {
        const uint32_t offset = layout->arguments[i].offset, size = layout->arguments[i].size;
        if (layout->arguments[i].role == ARGUMENT_VALUE && size <= record->kernarg_bytes &&
            offset <= record->kernarg_bytes - size) {
            hash = add(hash, record->kernarg + offset, size);
        }
    }
    return hash > SHAPE_TAKEN_BACK ? hash : hash + 2;
}

// Its place in the table, or the free one where it belongs; -1: neither.
static int find(const struct capture_control* control, uint64_t shape) {
    for (uint64_t probe = 0; probe < MAX_PROBES; ++probe) {
        const uint64_t at = (shape + probe) % MAX_TAKEN_SHAPES;
        const uint64_t found = __atomic_load_n(&control->taken_shapes[at], __ATOMIC_RELAXED);
        if (found == shape || found == SHAPE_FREE) {
            return (int)at;
        }
    }
    return -1;
}

bool shape_is_taken(const struct capture_control* control, uint64_t shape) {
    const int at = find(control, shape);
    // A table that is full takes no further shapes.
    return at < 0 || __atomic_load_n(&control->taken_shapes[at], __ATOMIC_RELAXED) == shape;
}

int shape_take(struct capture_control* control, uint64_t shape) {
    const int at = find(control, shape);
    if (at >= 0) {
        __atomic_store_n(&control->taken_shapes[at], shape, __ATOMIC_RELAXED);
    }
    return at;
}
