#include "manifest.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "whole_file.h"

enum { MAX_MANIFEST_BYTES = 4 << 20, MAX_OBJECT_BYTES = 1 << 30 };

struct text {
    const char* at;
    const char* end;
};

static bool take_literal(struct text* text, const char* literal) {
    const size_t length = strlen(literal);
    if ((size_t)(text->end - text->at) < length || memcmp(text->at, literal, length) != 0) {
        return false;
    }
    text->at += length;
    return true;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_sha256(struct text* text, uint8_t digest[SHA256_BYTES]) {
    if (text->end - text->at < 2 * SHA256_BYTES) {
        return false;
    }
    for (int i = 0; i < SHA256_BYTES; ++i, text->at += 2) {
        const int high = hex_digit(text->at[0]), low = hex_digit(text->at[1]);
        if (high < 0 || low < 0) {
            return false;
        }
        digest[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool take_size(struct text* text, size_t* size) {
    const char* start = text->at;
    *size = 0;
    while (text->at < text->end && *text->at >= '0' && *text->at <= '9') {
        *size = *size * 10 + (size_t)(*text->at++ - '0');
        if (*size > MAX_OBJECT_BYTES) {
            return false;
        }
    }
    return text->at > start && *size > 0;
}

// Takes a word of letters, digits and a few signs: no path separator, no leading dot.
static bool take_word(struct text* text, char* word, size_t limit) {
    size_t length = 0;
    for (; text->at < text->end; ++text->at, ++length) {
        const char c = *text->at;
        const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z') || (c != '\0' && strchr("._-+:", c) != NULL);
        if (!is_plain) {
            break;
        }
        if (length == limit) {
            return false;
        }
        word[length] = c;
    }
    word[length] = '\0';
    return length > 0 && word[0] != '.';
}

static bool take_entry(struct text* text, struct manifest_entry* entry) {
    char arch[64];
    return take_sha256(text, entry->k0_sha256) && take_literal(text, " ") &&
           take_size(text, &entry->k0_size) && take_literal(text, " ") &&
           take_sha256(text, entry->optimized_sha256) && take_literal(text, " ") &&
           take_size(text, &entry->optimized_size) && take_literal(text, " ") &&
           take_word(text, arch, sizeof arch - 1) && take_literal(text, " ") &&
           take_word(text, entry->file, MANIFEST_MAX_NAME) && take_literal(text, "\n");
}

static int parse(struct manifest* manifest, struct text text, char* error, size_t error_bytes) {
    if (!take_literal(&text, "asmevo-swap 1\n")) {
        snprintf(error, error_bytes, "line 1 is not 'asmevo-swap 1'");
        return -1;
    }
    while (text.at < text.end) {
        if (manifest->count == MANIFEST_MAX_ENTRIES) {
            snprintf(error, error_bytes, "more than %d entries", MANIFEST_MAX_ENTRIES);
            return -1;
        }
        struct manifest_entry* entry = &manifest->entries[manifest->count];
        if (!take_entry(&text, entry)) {
            snprintf(error, error_bytes, "line %zu is malformed", manifest->count + 2);
            return -1;
        }
        if (manifest_find(manifest, entry->k0_sha256, entry->k0_size) != NULL) {
            snprintf(error, error_bytes, "line %zu repeats a code object", manifest->count + 2);
            return -1;
        }
        ++manifest->count;
    }
    return 0;
}

int manifest_read(struct manifest* manifest, const char* folder, char* error, size_t error_bytes) {
    char path[4096];
    memset(manifest, 0, sizeof *manifest);
    if (snprintf(path, sizeof path, "%s/manifest.txt", folder) >= (int)sizeof path) {
        snprintf(error, error_bytes, "the folder's name is too long");
        return -1;
    }
    size_t size;
    char* data = whole_file_read(path, MAX_MANIFEST_BYTES, &size, error, error_bytes);
    if (data == NULL) {
        return -1;
    }
    manifest->entries = calloc(MANIFEST_MAX_ENTRIES, sizeof *manifest->entries);
    int result = -1;
    if (manifest->entries == NULL) {
        snprintf(error, error_bytes, "out of memory");
    } else {
        result = parse(manifest, (struct text){data, data + size}, error, error_bytes);
    }
    free(data);
    if (result != 0) {
        free(manifest->entries);
        memset(manifest, 0, sizeof *manifest);
    }
    return result;
}

int manifest_has_size(const struct manifest* manifest, size_t k0_size) {
    for (size_t i = 0; i < manifest->count; ++i) {
        if (manifest->entries[i].k0_size == k0_size) {
            return 1;
        }
    }
    return 0;
}

struct manifest_entry* manifest_find(const struct manifest* manifest, const uint8_t* k0_sha256,
                                     size_t k0_size) {
    for (size_t i = 0; i < manifest->count; ++i) {
        struct manifest_entry* entry = &manifest->entries[i];
        if (entry->k0_size == k0_size && memcmp(entry->k0_sha256, k0_sha256, SHA256_BYTES) == 0) {
            return entry;
        }
    }
    return NULL;
}
