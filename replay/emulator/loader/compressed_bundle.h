// Compressed offload bundles (`CCOB`): a header and a zstd frame that holds an uncompressed bundle.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace asmevo::emulator {

bool is_compressed_bundle(std::span<const uint8_t> data);

/// The bundle inside; throws LoadError when it is damaged, not zstd, or the machine has no libzstd.
std::vector<uint8_t> decompress_bundle(std::span<const uint8_t> data);

}  // namespace asmevo::emulator
