// What is known about the functions that are launched: a hash table in the control block, without
// locks.
#pragma once

#include "capture_control.h"

// Index of a function's entry, made if there is none; -1 where the table was full (it is emptied
// then, and the next launch finds room).
int function_find(struct capture_control* control, uint64_t function);

// The verdict on a function, or 0 where there is none of this generation.
enum verdict function_verdict(const struct capture_control* control, int index);

// Matches the kernel's name against the globs, notes the name as seen, and stores the verdict.
enum verdict function_classify(struct capture_control* control, int index, uint64_t generation,
                               const char* name);

// Drops all entries and opens a new generation.
void function_forget_all(struct capture_control* control);
