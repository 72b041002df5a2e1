#define _GNU_SOURCE
#include "whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void* read_descriptor(int fd, size_t limit, size_t* size, char* error, size_t error_bytes) {
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        snprintf(error, error_bytes, "not a regular file");
        return NULL;
    }
    if (status.st_size < 0 || (size_t)status.st_size > limit) {
        snprintf(error, error_bytes, "larger than %zu bytes", limit);
        return NULL;
    }
    *size = (size_t)status.st_size;
    char* data = malloc(*size + 1);
    size_t at = 0;
    while (data != NULL && at < *size) {
        const ssize_t got = read(fd, data + at, *size - at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        at += (size_t)got;
    }
    if (data == NULL || at < *size) {
        free(data);
        snprintf(error, error_bytes, "cannot be read whole");
        return NULL;
    }
    return data;
}

void* whole_file_read(const char* path, size_t limit, size_t* size, char* error,
                      size_t error_bytes) {
    // O_NONBLOCK: opening a FIFO must not hang the server.
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        snprintf(error, error_bytes, "%s", strerror(errno));
        return NULL;
    }
    void* data = read_descriptor(fd, limit, size, error, error_bytes);
    close(fd);
    return data;
}
