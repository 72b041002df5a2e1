// Code object images in memory, as hipModuleLoadData gets them: an address without a size.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What K0 and its replacement must agree in.
struct image_identity {
    uint8_t os_abi, abi_version;
    uint16_t machine;
    uint32_t flags;  // chip and its features
};

// Size of an AMDGPU ELF image from its header: end of the section header table. 0 where the image
// is something else, says more than 1 GiB or more than is mapped.
size_t image_size(const void* image);

// Same for an image of which `size` bytes may be read.
bool image_identify(const void* image, size_t size, struct image_identity* identity);
