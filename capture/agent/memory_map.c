#define _GNU_SOURCE
#include "memory_map.h"

#include <fcntl.h>
#include <unistd.h>

// Reads the list in pieces; a line's path may be cut, its beginning never is.
struct line_reader {
    int fd;
    char buffer[8192];
    size_t used, at;
};

static int next_character(struct line_reader* reader) {
    if (reader->at == reader->used) {
        const ssize_t got = read(reader->fd, reader->buffer, sizeof reader->buffer);
        if (got <= 0) {
            return -1;
        }
        reader->used = (size_t)got;
        reader->at = 0;
    }
    return (unsigned char)reader->buffer[reader->at++];
}

// Reads a hexadecimal number and the character after it.
static bool read_hex(struct line_reader* reader, int end, uintptr_t* value) {
    *value = 0;
    for (;;) {
        const int c = next_character(reader);
        if (c == end) {
            return true;
        }
        if (c >= '0' && c <= '9') {
            *value = *value << 4 | (uintptr_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            *value = *value << 4 | (uintptr_t)(c - 'a' + 10);
        } else {
            return false;
        }
    }
}

static bool read_line(struct line_reader* reader, struct mapping* mapping) {
    if (!read_hex(reader, '-', &mapping->start) || !read_hex(reader, ' ', &mapping->end)) {
        return false;
    }
    mapping->is_readable = next_character(reader) == 'r';
    mapping->is_writable = next_character(reader) == 'w';
    mapping->is_executable = next_character(reader) == 'x';
    for (int c = 0; c != '\n';) {
        c = next_character(reader);
        if (c < 0) {
            return false;
        }
    }
    return true;
}

bool mapping_find(uintptr_t address, struct mapping* mapping) {
    struct line_reader reader = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    if (reader.fd < 0) {
        return false;
    }
    bool found = false;
    while (!found && read_line(&reader, mapping) && mapping->start <= address) {
        found = address < mapping->end;
    }
    close(reader.fd);
    return found;
}

bool mapping_covers(uintptr_t address, size_t size) {
    struct line_reader reader = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    if (reader.fd < 0) {
        return false;
    }
    struct mapping mapping;
    uintptr_t at = address;  // everything in [address, at) is covered
    while (at - address < size && read_line(&reader, &mapping) && mapping.start <= at) {
        if (at < mapping.end) {
            if (!mapping.is_readable) {
                break;
            }
            at = mapping.end;
        }
    }
    close(reader.fd);
    return at - address >= size;
}
