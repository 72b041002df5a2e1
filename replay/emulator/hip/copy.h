// Checks shared by the copy functions.
#pragma once

#include <cstdint>

namespace asmevo::emulator::hip {

/// Whether `size` bytes at `pointer` may be touched: device memory must be inside one allocation;
/// any other address is the host program's own responsibility.
bool is_copyable(const void* pointer, uint64_t size);

}  // namespace asmevo::emulator::hip
