// What is known about the functions that are launched: a hash table in the control block, without
// locks.
#pragma once

#include <stdbool.h>

#include "capture_control.h"

enum { FUNCTION_TABLE_BITS = 12 };
_Static_assert(MAX_FUNCTIONS == 1 << FUNCTION_TABLE_BITS, "hash");

// First place to look for a function. Handles are addresses: Fibonacci hashing spreads their middle
// bits.
static inline uint64_t function_hash(uint64_t function) {
    return (function >> 4) * 0x9e3779b97f4a7c15u >> (64 - FUNCTION_TABLE_BITS);
}

// Whether the launch of this function is of no interest: what most launches ask. May miss some.
static inline bool function_is_unwanted(const struct capture_control* control, uint64_t function) {
    const struct capture_function* entry = &control->functions[function_hash(function)];
    const uint64_t generation = __atomic_load_n(&control->generation, __ATOMIC_RELAXED);
    return __atomic_load_n(&entry->verdict, __ATOMIC_ACQUIRE) ==
               (generation << 32 | VERDICT_UNWANTED) &&
           __atomic_load_n(&entry->function, __ATOMIC_RELAXED) == function;
}

// Index of a function's entry, made if there is none; -1 where the table was full (it is emptied
// then, and the next launch finds room).
int function_find(struct capture_control* control, uint64_t function);

// The verdict on a function, or 0 where there is none of this generation or the entry was given to
// another function.
enum verdict function_verdict(const struct capture_control* control, int index, uint64_t function,
                              uint64_t generation);

// Matches the kernel's name against the globs, finds or makes the name's statistics, and stores the
// verdict.
enum verdict function_classify(struct capture_control* control, int index, uint64_t generation,
                               const char* name);

// Drops all entries and opens a new generation.
void function_forget_all(struct capture_control* control);
