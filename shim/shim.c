// The load-path interposer: loads optimized code objects in place of the ones a program asks for.
//
// Preloaded with ASMEVO_SWAP_DIR set. When libamdhip64.so is mapped, the module-load slots of its
// dispatch table are swapped. A code object whose SHA-256 is in the manifest is replaced by the
// optimized file; on any doubt the program gets what it asked for, and the log says why.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip_table.h"
#include "image.h"
#include "library_watch.h"
#include "manifest.h"
#include "sha256.h"
#include "swap_log.h"
#include "whole_file.h"

enum { MAX_FILE_BYTES = 1 << 30, HIP_SUCCESS = 0 };

typedef int (*load_data_function)(void** module, const void* image);
typedef int (*load_data_ex_function)(void** module, const void* image, unsigned count,
                                     void* options, void** values);
typedef int (*load_file_function)(void** module, const char* path);

static struct manifest g_manifest;
static struct hip_table g_table;
static char g_folder[3800];
static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // of the entries' contents

static load_data_function g_load_data, g_load_fat_binary;
static load_data_ex_function g_load_data_ex;
static load_file_function g_load_file;

static void format_sha256(const uint8_t digest[SHA256_BYTES], char text[2 * SHA256_BYTES + 1]) {
    for (int i = 0; i < SHA256_BYTES; ++i) {
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    }
}

// Reads and verifies the optimized object, once; it stays in memory, since a runtime may go on
// reading an image after it has loaded it. Returns NULL with the reason.
static const void* get_optimized(struct manifest_entry* entry, const void* k0, char* reason,
                                 size_t reason_bytes) {
    char path[4096], detail[256] = "";
    size_t size;
    uint8_t digest[SHA256_BYTES];
    struct image_identity ours, theirs;
    if (entry->optimized != NULL) {
        return entry->optimized;
    }
    snprintf(path, sizeof path, "%s/%s", g_folder, entry->file);
    void* data = whole_file_read(path, MAX_FILE_BYTES, &size, detail, sizeof detail);
    if (data == NULL) {
        snprintf(reason, reason_bytes, "%s: %s", entry->file, detail);
        return NULL;
    }
    sha256(data, size, digest);
    if (size != entry->optimized_size) {
        snprintf(reason, reason_bytes, "%s has %zu bytes, not %zu", entry->file, size,
                 entry->optimized_size);
    } else if (memcmp(digest, entry->optimized_sha256, SHA256_BYTES) != 0) {
        snprintf(reason, reason_bytes, "%s is damaged: its SHA-256 differs", entry->file);
    } else if (!image_identify(data, size, &ours) || !image_identify(k0, entry->k0_size, &theirs) ||
               memcmp(&ours, &theirs, sizeof ours) != 0) {
        snprintf(reason, reason_bytes, "%s is for another chip or ABI", entry->file);
    } else {
        entry->optimized = data;
        return data;
    }
    free(data);
    return NULL;
}

// The optimized image for `k0`, or NULL where there is none or it cannot be trusted.
static const void* choose(const void* k0, size_t size, char hash[2 * SHA256_BYTES + 1],
                          const char** file) {
    uint8_t digest[SHA256_BYTES];
    char reason[512];
    if (size == 0 || !manifest_has_size(&g_manifest, size)) {
        return NULL;
    }
    sha256(k0, size, digest);
    struct manifest_entry* entry = manifest_find(&g_manifest, digest, size);
    if (entry == NULL) {
        return NULL;
    }
    format_sha256(digest, hash);
    *file = entry->file;
    pthread_mutex_lock(&g_lock);
    const void* optimized = get_optimized(entry, k0, reason, sizeof reason);
    pthread_mutex_unlock(&g_lock);
    if (optimized == NULL) {
        swap_log("kept %s: %s", hash, reason);
    }
    return optimized;
}

// Logs how the runtime took the optimized image; false: it refused, and K0 must be loaded.
static bool is_taken(int result, const char* hash, const char* file) {
    if (result == HIP_SUCCESS) {
        swap_log("swapped %s -> %s", hash, file);
        return true;
    }
    swap_log("kept %s: the runtime refused %s with error %d", hash, file, result);
    if (hip_table_has(&g_table, HIP_SLOT_GET_LAST_ERROR)) {
        ((int (*)(void))hip_slot_get(&g_table, HIP_SLOT_GET_LAST_ERROR))();  // not the program's
    }
    return false;
}

static int load_data(load_data_function load, void** module, const void* image) {
    char hash[2 * SHA256_BYTES + 1];
    const char* file;
    const void* optimized = choose(image, image_size(image), hash, &file);
    if (optimized != NULL && is_taken(load(module, optimized), hash, file)) {
        return HIP_SUCCESS;
    }
    return load(module, image);
}

static int hook_load_data(void** module, const void* image) {
    return load_data(g_load_data, module, image);
}

static int hook_load_fat_binary(void** module, const void* image) {
    return load_data(g_load_fat_binary, module, image);
}

static int hook_load_data_ex(void** module, const void* image, unsigned count, void* options,
                             void** values) {
    char hash[2 * SHA256_BYTES + 1];
    const char* file;
    const void* optimized = choose(image, image_size(image), hash, &file);
    if (optimized != NULL &&
        is_taken(g_load_data_ex(module, optimized, count, options, values), hash, file)) {
        return HIP_SUCCESS;
    }
    return g_load_data_ex(module, image, count, options, values);
}

static int hook_load_file(void** module, const char* path) {
    char hash[2 * SHA256_BYTES + 1], ignored[256];
    const char* file;
    size_t bytes;
    void* k0 = path == NULL
                   ? NULL
                   : whole_file_read(path, MAX_FILE_BYTES, &bytes, ignored, sizeof ignored);
    bool has_loaded = false;
    if (k0 != NULL) {
        struct image_identity identity;
        const size_t size = image_identify(k0, bytes, &identity) ? image_size(k0) : 0;
        const void* optimized = size <= bytes ? choose(k0, size, hash, &file) : NULL;
        has_loaded = optimized != NULL && is_taken(g_load_data(module, optimized), hash, file);
        free(k0);
    }
    return has_loaded ? HIP_SUCCESS : g_load_file(module, path);
}

static void swap_slot(enum hip_slot slot, void* hook, void** original) {
    if (hip_table_has(&g_table, slot)) {
        hip_slot_swap(&g_table, slot, hook, original);
    }
}

static void on_library(void* library) {
    char error[512];
    if (manifest_read(&g_manifest, g_folder, error, sizeof error) != 0) {
        swap_log("inactive: manifest.txt: %s", error);
        return;
    }
    if (hip_table_find(&g_table, library, error, sizeof error) != 0) {
        swap_log("inactive: %s", error);
        return;
    }
    swap_slot(HIP_SLOT_MODULE_LOAD_DATA, (void*)hook_load_data, (void**)&g_load_data);
    swap_slot(HIP_SLOT_MODULE_LOAD_DATA_EX, (void*)hook_load_data_ex, (void**)&g_load_data_ex);
    swap_slot(HIP_SLOT_MODULE_LOAD, (void*)hook_load_file, (void**)&g_load_file);
    swap_slot(HIP_SLOT_MODULE_LOAD_FAT_BINARY, (void*)hook_load_fat_binary,
              (void**)&g_load_fat_binary);
    swap_log("active: %zu code objects to swap in %s", g_manifest.count, g_table.path);
}

__attribute__((constructor)) static void start(void) {
    const char* folder = getenv("ASMEVO_SWAP_DIR");
    if (folder == NULL || folder[0] == '\0' || strlen(folder) >= sizeof g_folder) {
        return;
    }
    strcpy(g_folder, folder);
    swap_log_open(folder);
    library_watch_start(on_library);
}
