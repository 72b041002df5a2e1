#include "image.h"

#include <elf.h>
#include <string.h>

#include "memory_map.h"

#ifndef EM_AMDGPU
#define EM_AMDGPU 224
#endif

enum { MAX_IMAGE_BYTES = 1 << 30 };

static bool read_header(const void* image, Elf64_Ehdr* header) {
    memcpy(header, image, sizeof *header);
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
           header->e_machine == EM_AMDGPU;
}

size_t image_size(const void* image) {
    Elf64_Ehdr header;
    if (!mapping_covers((uintptr_t)image, sizeof header) || !read_header(image, &header)) {
        return 0;
    }
    const uint64_t table = (uint64_t)header.e_shnum * header.e_shentsize;
    if (header.e_shoff < sizeof header || header.e_shoff > MAX_IMAGE_BYTES - table) {
        return 0;
    }
    const size_t size = header.e_shoff + table;
    return mapping_covers((uintptr_t)image, size) ? size : 0;
}

bool image_identify(const void* image, size_t size, struct image_identity* identity) {
    Elf64_Ehdr header;
    if (size < sizeof header || !read_header(image, &header)) {
        return false;
    }
    identity->os_abi = header.e_ident[EI_OSABI];
    identity->abi_version = header.e_ident[EI_ABIVERSION];
    identity->machine = header.e_machine;
    identity->flags = header.e_flags;
    return true;
}
