// The functions that take the place of launch functions in the dispatch table.
#pragma once

#include "hip_table.h"

// Swaps every slot that the library has. Returns how many.
int hooks_insert(const struct hip_table* table);

// Puts the originals back. Returns how many slots are not ours any more.
int hooks_remove(const struct hip_table* table);
