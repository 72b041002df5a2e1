#define _GNU_SOURCE
#include "host_memory.h"

#include <sys/uio.h>
#include <unistd.h>

// A chunk of glibc's malloc: the size of the chunk before it (or what padding put there), its own
// size with three flags, the memory. The memory may run 8 bytes into the chunk behind it.
struct chunk {
    uint64_t previous, size;
};

enum {
    FLAG_PREVIOUS_IN_USE = 1,
    FLAG_MAPPED = 2,
    FLAGS = 7,
    HEADER_BYTES = sizeof(struct chunk),
    MIN_CHUNK_BYTES = 32,
    // Chunks behind one that must look like chunks too, before a size is believed: data may look
    // like one or two.
    NEIGHBOURS = 16,
};

bool host_copy(void* to, uint64_t from, size_t size) {
    // process_vm_readv on ourselves: a page that vanishes meanwhile is an error, not a crash.
    for (size_t at = 0; at < size;) {
        struct iovec local = {(char*)to + at, size - at};
        struct iovec remote = {(void*)(from + at), size - at};
        const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
        if (got <= 0) {
            return false;
        }
        at += (size_t)got;
    }
    return true;
}

// Mapped on its own: chunk and size are page multiples together with the padding in front.
static bool is_mapped_chunk(const struct chunk* chunk, uint64_t address,
                            const struct mapping* mapping) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size = chunk->size & ~(uint64_t)FLAGS;
    return (chunk->size & FLAGS) == FLAG_MAPPED && chunk->previous < page && size > HEADER_BYTES &&
           size <= mapping->end - address && (address - chunk->previous) % page == 0 &&
           (chunk->previous + size) % page == 0;
}

// On a heap, in use: it and the chunks behind it follow each other inside the mapping, up to the
// last one.
static bool is_heap_chunk(uint64_t address, const struct mapping* mapping) {
    for (int i = 0; i < NEIGHBOURS; ++i) {
        struct chunk chunk;
        if (!host_copy(&chunk, address, sizeof chunk)) {
            return false;
        }
        const uint64_t size = chunk.size & ~(uint64_t)FLAGS, room = mapping->end - address;
        if ((chunk.size & FLAG_MAPPED) != 0 || size < MIN_CHUNK_BYTES || size % HEADER_BYTES != 0 ||
            size > room || (i == 1 && (chunk.size & FLAG_PREVIOUS_IN_USE) == 0)) {
            return false;
        }
        if (room - size < 2 * HEADER_BYTES) {
            return i > 0;  // the heap's last chunk
        }
        address += size;
    }
    return true;
}

uint64_t host_chunk_bytes(uint64_t pointer, const struct mapping* mapping) {
    const uint64_t address = pointer - HEADER_BYTES;
    struct chunk chunk;
    if (pointer % HEADER_BYTES != 0 || pointer - mapping->start < HEADER_BYTES ||
        !host_copy(&chunk, address, sizeof chunk)) {
        return 0;
    }
    const uint64_t size = chunk.size & ~(uint64_t)FLAGS;
    if (is_mapped_chunk(&chunk, address, mapping)) {
        return size - HEADER_BYTES;
    }
    return is_heap_chunk(address, mapping) ? size - HEADER_BYTES + sizeof(uint64_t) : 0;
}
