// Messages for the user on stderr.
#pragma once

namespace asmevo::emulator {

/// Always printed: why a call failed. printf format; a newline is added.
__attribute__((format(printf, 1, 2))) void log_error(const char* format, ...);
/// Printed when ASMEVO_EMULATOR_LOG is set (to anything but 0).
__attribute__((format(printf, 1, 2))) void log_info(const char* format, ...);

}  // namespace asmevo::emulator
