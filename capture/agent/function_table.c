#define _GNU_SOURCE
#include "function_table.h"

#include <fnmatch.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum { MAX_PROBES = 64 };

static atomic_flag g_seen_lock = ATOMIC_FLAG_INIT;

int function_find(struct capture_control* control, uint64_t function) {
    const uint64_t start = function_hash(function);
    for (uint64_t probe = 0; probe < MAX_PROBES; ++probe) {
        const uint64_t index = (start + probe) % MAX_FUNCTIONS;
        struct capture_function* entry = &control->functions[index];
        uint64_t found = __atomic_load_n(&entry->function, __ATOMIC_ACQUIRE);
        if (found == 0) {
            __atomic_compare_exchange_n(&entry->function, &found, function, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE);
            found = found == 0 ? function : found;
        }
        if (found == function) {
            return (int)index;
        }
    }
    function_forget_all(control);
    return -1;
}

enum verdict function_verdict(const struct capture_control* control, int index, uint64_t function,
                              uint64_t generation) {
    const uint64_t verdict = __atomic_load_n(&control->functions[index].verdict, __ATOMIC_ACQUIRE);
    const uint64_t owner = __atomic_load_n(&control->functions[index].function, __ATOMIC_ACQUIRE);
    return verdict >> 32 == generation && owner == function ? (enum verdict)(uint32_t)verdict : 0;
}

static void note_seen(struct capture_control* control, const char* name) {
    const size_t length = strnlen(name, MAX_SEEN_BYTES);
    while (atomic_flag_test_and_set_explicit(&g_seen_lock, memory_order_acquire)) {
    }
    uint32_t at = 0;
    while (at < control->seen_count && (control->seen[at].length != length ||
                                        memcmp(control->seen[at].name, name, length) != 0)) {
        ++at;
    }
    if (at == control->seen_count && at < MAX_SEEN) {
        memcpy(control->seen[at].name, name, length);
        control->seen[at].length = length;
        __atomic_store_n(&control->seen_count, at + 1, __ATOMIC_RELEASE);
    }
    atomic_flag_clear_explicit(&g_seen_lock, memory_order_release);
}

enum verdict function_classify(struct capture_control* control, int index, uint64_t generation,
                               const char* name) {
    enum verdict verdict = VERDICT_UNWANTED;
    if (name != NULL && strnlen(name, MAX_NAME_BYTES) < MAX_NAME_BYTES) {
        note_seen(control, name);
        for (uint32_t i = 0; i < control->glob_count && i < MAX_GLOBS; ++i) {
            if (fnmatch(control->globs[i], name, 0) == 0) {
                verdict = VERDICT_UNKNOWN;
            }
        }
    }
    __atomic_store_n(&control->functions[index].verdict, generation << 32 | verdict,
                     __ATOMIC_RELEASE);
    return verdict;
}

void function_forget_all(struct capture_control* control) {
    __atomic_fetch_add(&control->generation, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < MAX_FUNCTIONS; ++i) {
        __atomic_store_n(&control->functions[i].function, 0, __ATOMIC_RELEASE);
    }
}
