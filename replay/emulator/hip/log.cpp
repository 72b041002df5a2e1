#include "hip/log.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace asmevo::emulator {
namespace {

void print(const char* format, va_list arguments) {
    char text[1024];
    std::vsnprintf(text, sizeof text, format, arguments);
    // One write a message, so that lines of several threads do not mix.
    std::string line = std::string("asmevo emulated device: ") + text + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void log_error(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
}

void log_info(const char* format, ...) {
    static const bool enabled = [] {
        const char* value = std::getenv("ASMEVO_EMULATOR_LOG");
        return value && *value && std::strcmp(value, "0") != 0;
    }();
    if (!enabled) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
}

}  // namespace asmevo::emulator
