// printf through a buffer that the host reads behind the launch: `-mprintf-kind=buffered`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asmevo::emulator::hip {

/// The buffer: the hidden argument; 0 when there is no memory.
uint64_t printf_buffer_address();
void clear_printf_buffer();
/// Prints what a launch left there. `formats` are those of the code object's metadata.
void print_printf_buffer(const std::vector<std::string>& formats);

}  // namespace asmevo::emulator::hip
