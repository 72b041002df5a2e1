// The swap manifest: which code objects are replaced by which files.
//
//     asmevo-swap 1
//     <k0 sha256> <k0 size> <optimized sha256> <optimized size> <arch> <file name>
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sha256.h"

enum { MANIFEST_MAX_ENTRIES = 4096, MANIFEST_MAX_NAME = 200 };

struct manifest_entry {
    uint8_t k0_sha256[SHA256_BYTES];
    uint8_t optimized_sha256[SHA256_BYTES];
    size_t k0_size, optimized_size;
    char file[MANIFEST_MAX_NAME + 1];
    void* optimized;  // the file's content once it has been read and verified
};

struct manifest {
    struct manifest_entry* entries;
    size_t count;
};

// Reads DIR/manifest.txt. Accepts all of it or nothing: returns 0, or -1 with one line in `error`.
int manifest_read(struct manifest* manifest, const char* folder, char* error, size_t error_bytes);

// Whether any entry's K0 has this size: a quick look before hashing.
int manifest_has_size(const struct manifest* manifest, size_t k0_size);

// The entry of a K0, or NULL.
struct manifest_entry* manifest_find(const struct manifest* manifest, const uint8_t* k0_sha256,
                                     size_t k0_size);
