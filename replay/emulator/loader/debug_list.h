// The list of loaded code objects for debuggers and for tools that attach late: ROCm's
// `_amdgpu_r_debug`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace asmevo::emulator {

/// Adds an entry: `bias` is the loaded address minus the ELF address; `image` stays in place until
/// withdrawn.
void publish_code_object(const void* owner, uint64_t bias, const uint8_t* image, size_t size);
void withdraw_code_object(const void* owner);

}  // namespace asmevo::emulator
