#include "hip/log.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace asmevo::emulator {
namespace {

void print(const char* format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int size = std::vsnprintf(nullptr, 0, format, again);
    va_end(again);
    std::string text(static_cast<size_t>(size > 0 ? size : 0) + 1, '\0');
    std::vsnprintf(text.data(), text.size(), format, arguments);
    text.back() = '\n';
    // One write a message, so that lines of several threads do not mix.
    const std::string line = "asmevo emulated device: " + text;
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
