#include "hip/device_printf.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace asmevo::emulator::hip {
namespace {

constexpr int kMaxWidth = 4096;  // of a field: the format string comes from the device

/// Reads arguments in order; `is_good` turns false when there are too few.
class Arguments {
  public:
    explicit Arguments(std::span<const uint64_t> words) : words_(words) {}

    uint64_t take() {
        if (words_.empty()) {
            is_good = false;
            return 0;
        }
        const uint64_t value = words_.front();
        words_ = words_.subspan(1);
        return value;
    }
    std::string_view take_string() {
        const char* text = reinterpret_cast<const char*>(words_.data());
        const size_t size = strnlen(text, words_.size_bytes());
        if (size == words_.size_bytes()) {
            is_good = false;
            return {};
        }
        words_ = words_.subspan(size / sizeof(uint64_t) + 1);
        return {text, size};
    }

    bool is_good = true;

  private:
    std::span<const uint64_t> words_;
};

/// One conversion of a format string, such as "%-8.3lf".
struct Conversion {
    std::string flags;
    int width = -1, precision = -1;
    unsigned bits = 32;  // of an integer argument
    char kind = 0;       // 0: malformed
};

/// A number, or `*` for one from the arguments; -1 if there is none.
int read_count(std::string_view& text, Arguments& arguments) {
    if (text.starts_with('*')) {
        text.remove_prefix(1);
        return std::clamp(static_cast<int>(arguments.take()), -kMaxWidth, kMaxWidth);
    }
    int value = -1;
    while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
        value = std::min(std::max(value, 0) * 10 + (text.front() - '0'), kMaxWidth);
        text.remove_prefix(1);
    }
    return value;
}

/// Bits of an integer by its length modifiers, which are removed.
unsigned read_length(std::string_view& text) {
    unsigned bits = 32;
    while (!text.empty() && std::strchr("hljztLq", text.front())) {
        bits = text.front() != 'h' ? 64 : bits == 16 ? 8 : 16;
        text.remove_prefix(1);
    }
    return bits;
}

/// Reads what follows a `%`.
Conversion read_conversion(std::string_view& text, Arguments& arguments) {
    Conversion conversion;
    while (!text.empty() && std::strchr("-+ #0", text.front())) {
        if (conversion.flags.find(text.front()) == std::string::npos) {
            conversion.flags += text.front();
        }
        text.remove_prefix(1);
    }
    conversion.width = read_count(text, arguments);
    if (conversion.width < -1) {  // a negative width from an argument: to the left
        conversion.flags += '-';
        conversion.width = -conversion.width;
    }
    if (text.starts_with('.')) {
        text.remove_prefix(1);
        conversion.precision = std::max(read_count(text, arguments), 0);
    }
    conversion.bits = read_length(text);
    if (!text.empty()) {
        conversion.kind = text.front();
        text.remove_prefix(1);
    }
    return conversion;
}

/// The host's printf with a conversion rebuilt from its checked parts.
template <typename Value>
std::string print(const Conversion& conversion, const char* modifier, Value value) {
    std::string format = "%" + conversion.flags;
    if (conversion.width >= 0) {
        format += std::to_string(conversion.width);
    }
    if (conversion.precision >= 0) {
        format += "." + std::to_string(conversion.precision);
    }
    format += modifier;
    format += conversion.kind;
    const int size = std::snprintf(nullptr, 0, format.c_str(), value);
    std::string text(static_cast<size_t>(std::max(size, 0)) + 1, '\0');
    std::snprintf(text.data(), text.size(), format.c_str(), value);
    text.pop_back();
    return text;
}

uint64_t truncate(uint64_t value, unsigned bits) {
    return bits == 64 ? value : value & ((1ull << bits) - 1);
}
int64_t truncate_signed(uint64_t value, unsigned bits) {
    return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

std::string convert(const Conversion& conversion, Arguments& arguments) {
    switch (conversion.kind) {
        case 'd':
        case 'i':
            return print(conversion, "ll",
                         static_cast<long long>(truncate_signed(arguments.take(), conversion.bits)));
        case 'o':
        case 'u':
        case 'x':
        case 'X':
            return print(conversion, "ll",
                         static_cast<unsigned long long>(truncate(arguments.take(), conversion.bits)));
        case 'c':
            return print(conversion, "", static_cast<int>(arguments.take() & 0xff));
        case 'f':
        case 'F':
        case 'e':
        case 'E':
        case 'g':
        case 'G':
        case 'a':
        case 'A': {
            const uint64_t bits = arguments.take();
            double value;
            std::memcpy(&value, &bits, sizeof value);
            return print(conversion, "", value);
        }
        case 's':
            return print(conversion, "", std::string(arguments.take_string()).c_str());
        case 'p':
            return print(conversion, "", reinterpret_cast<void*>(arguments.take()));
        case 'n':  // nowhere to write to
            return arguments.take(), std::string();
        default:
            arguments.is_good = false;
            return {};
    }
}

}  // namespace

std::string format_device_printf(std::span<const uint64_t> data) {
    Arguments arguments(data);
    std::string_view format = arguments.take_string();
    std::string out;
    while (arguments.is_good) {
        const size_t literal = std::min(format.find('%'), format.size());
        out += format.substr(0, literal);
        format.remove_prefix(literal);
        if (format.empty()) {
            break;
        }
        format.remove_prefix(1);
        if (format.starts_with('%')) {
            out += '%';
            format.remove_prefix(1);
            continue;
        }
        const Conversion conversion = read_conversion(format, arguments);
        const std::string text = convert(conversion, arguments);
        out += arguments.is_good ? text : "";
    }
    return out;
}

void write_device_output(const std::string& text, bool to_stderr) {
    FILE* stream = to_stderr ? stderr : stdout;
    std::fwrite(text.data(), 1, text.size(), stream);
    std::fflush(stream);
}

}  // namespace asmevo::emulator::hip
