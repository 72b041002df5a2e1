// The functions that take the place of launch functions in the dispatch tables.
#pragma once

// Swaps every slot that the mapped copies of the library have (session.h: g_tables). Returns how
// many functions are hooked.
int hooks_insert(void);

// Puts the originals back. Returns how many slots are not ours any more.
int hooks_remove(void);
