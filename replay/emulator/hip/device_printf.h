// printf of kernels: what both of its ways to the host (hostcall and the printf buffer) have in
// common.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace asmevo::emulator::hip {

/// The text of one call. `data` holds the format string and the arguments as the device packs them
/// into 64-bit words: numbers and pointers in one each, strings with their terminators, padded. What
/// is missing or malformed ends the text; nothing outside of `data` is read.
std::string format_device_printf(std::span<const uint64_t> data);

/// Writes a text where the device wanted it.
void write_device_output(const std::string& text, bool to_stderr);

}  // namespace asmevo::emulator::hip
