// Pointers that stand in memory: pointer arrays, addresses in variables.
#pragma once

#include "allocation.h"

// Searches the memory behind the places, a bounded part of each and of what is found there, for
// words that lead to allocations; these become regions, and the words the record's memory
// pointers. What fails is left out.
void pointer_scan(const struct reach* reach, const uint64_t* places, uint32_t count);
