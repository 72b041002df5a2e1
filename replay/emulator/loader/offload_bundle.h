// Clang's offload bundles: several code objects for several targets in one blob.
#pragma once

#include <cstdint>
#include <span>

#include "isa/op_info.h"

namespace asmevo::emulator {

/// True for an uncompressed bundle (`__CLANG_OFFLOAD_BUNDLE__`).
bool is_offload_bundle(std::span<const uint8_t> data);

/// The entry for `device`; throws LoadError when there is none, or the bundle is damaged.
std::span<const uint8_t> find_bundled(std::span<const uint8_t> data, Target device);

}  // namespace asmevo::emulator
