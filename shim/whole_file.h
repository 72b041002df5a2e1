// Small regular files read whole.
#pragma once

#include <stddef.h>

// Reads a regular file of at most `limit` bytes into fresh memory (free() it). Returns NULL with
// one line in `error`.
void* whole_file_read(const char* path, size_t limit, size_t* size, char* error,
                      size_t error_bytes);
