// SHA-256 (FIPS 180-4).
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

void sha256(const void* data, size_t size, uint8_t digest[SHA256_BYTES]);
