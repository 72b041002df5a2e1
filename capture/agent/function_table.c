#define _GNU_SOURCE
#include "function_table.h"

#include <fnmatch.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

enum { MAX_PROBES = 64 };

static atomic_flag g_names_lock = ATOMIC_FLAG_INIT;

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

// FNV-1a, 64 bits; never 0.
static uint64_t hash_name(const char* name, size_t length) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; ++i) {
        hash = (hash ^ (uint8_t)name[i]) * 0x100000001b3u;
    }
    return hash == 0 ? 1 : hash;
}

static uint64_t find_statistics(struct capture_control* control, const char* name, size_t length) {
    const uint64_t hash = hash_name(name, length);
    while (atomic_flag_test_and_set_explicit(&g_names_lock, memory_order_acquire)) {
    }
    uint64_t at = hash % MAX_NAMES;
    for (int probe = 0; probe < MAX_PROBES && control->statistics[at].name_hash != 0 &&
                        control->statistics[at].name_hash != hash;
         ++probe) {
        at = (at + 1) % MAX_NAMES;
    }
    struct capture_statistics* found = &control->statistics[at];
    if (found->name_hash != hash) {
        memset(found, 0, sizeof *found);
        found->name_bytes = (uint32_t)length;
        memcpy(found->name, name, length < MAX_STATISTICS_NAME ? length : MAX_STATISTICS_NAME);
        __atomic_store_n(&found->name_hash, hash, __ATOMIC_RELEASE);
    }
    atomic_flag_clear_explicit(&g_names_lock, memory_order_release);
    return at;
}

enum verdict function_classify(struct capture_control* control, int index, uint64_t generation,
                               const char* name) {
    static const char kUnnamed[] = "(unnamed)";
    enum verdict verdict = VERDICT_UNWANTED;
    const size_t length = name == NULL ? MAX_NAME_BYTES : strnlen(name, MAX_NAME_BYTES);
    struct capture_function* entry = &control->functions[index];
    if (length < MAX_NAME_BYTES) {
        entry->statistics = find_statistics(control, name, length);
        for (uint32_t i = 0; i < control->glob_count && i < MAX_GLOBS; ++i) {
            if (fnmatch(control->globs[i], name, 0) == 0) {
                verdict = VERDICT_UNKNOWN;
            }
        }
    } else {
        entry->statistics = find_statistics(control, kUnnamed, sizeof kUnnamed - 1);
    }
    entry->calls = 0;
    entry->due = 0;
    __atomic_store_n(&entry->verdict, generation << 32 | verdict, __ATOMIC_RELEASE);
    return verdict;
}

void function_forget_all(struct capture_control* control) {
    __atomic_fetch_add(&control->generation, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < MAX_FUNCTIONS; ++i) {
        __atomic_store_n(&control->functions[i].function, 0, __ATOMIC_RELEASE);
    }
}
