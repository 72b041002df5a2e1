#include "hip/printf_buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <string_view>

#include "hip/device_printf.h"
#include "hip/log.h"
#include "memory/address_space.h"
#include "memory/arena.h"

namespace asmevo::emulator::hip {
namespace {

constexpr uint64_t kBufferSize = 1 << 20;  // as ROCm's
constexpr uint32_t kHeaderSize = 8;        // bytes written, bytes that there are

// A record's first dword: LLVM, AMDGPUEmitPrintf.cpp.
constexpr uint32_t kToStderr = 1, kConstantFormat = 2;
constexpr unsigned kSizeShift = 2;

/// Formats by hash. An entry is "0:0:HASH,FORMAT"; others belong to OpenCL's printf.
std::map<uint64_t, std::string> parse_formats(const std::vector<std::string>& entries) {
    constexpr std::string_view kPrefix = "0:0:";
    std::map<uint64_t, std::string> formats;
    for (const std::string& entry : entries) {
        const size_t comma = entry.find(',');
        if (entry.starts_with(kPrefix) && comma != std::string::npos) {
            formats[std::strtoull(entry.c_str() + kPrefix.size(), nullptr, 16)] =
                entry.substr(comma + 1);
        }
    }
    return formats;
}

void append(std::vector<uint64_t>& words, std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
        const size_t size = std::min(bytes.size(), sizeof(uint64_t));
        uint64_t word = 0;
        std::memcpy(&word, bytes.data(), size);
        words.push_back(word);
        bytes = bytes.subspan(size);
    }
}

/// Prints what follows the first dword of a record.
void print_record(std::span<const uint8_t> body, uint32_t control,
                  const std::map<uint64_t, std::string>& formats) {
    std::vector<uint64_t> words;
    if (control & kConstantFormat) {
        uint64_t hash = 0;
        if (body.size() < sizeof hash) {
            return;
        }
        std::memcpy(&hash, body.data(), sizeof hash);
        body = body.subspan(sizeof hash);
        const auto format = formats.find(hash);
        if (format == formats.end()) {
            log_error("a kernel prints in a format that its code object does not have");
            return;
        }
        const std::string& text = format->second;
        append(words, {reinterpret_cast<const uint8_t*>(text.c_str()), text.size() + 1});
    }
    append(words, body);
    write_device_output(format_device_printf(words), (control & kToStderr) != 0);
}

}  // namespace

uint64_t printf_buffer_address() {
    static const uint64_t buffer = [] {
        const uint64_t address = Arena::get().map(Area::kRuntime, kBufferSize);
        if (address != 0) {
            AddressSpace::get().add({address, kBufferSize, MemoryKind::kKernarg, true});
        }
        return address;
    }();
    return buffer;
}

void clear_printf_buffer() {
    const uint32_t header[] = {0, kBufferSize - kHeaderSize};
    std::memcpy(reinterpret_cast<void*>(printf_buffer_address()), header, sizeof header);
}

void print_printf_buffer(const std::vector<std::string>& formats) {
    const auto* buffer = reinterpret_cast<const uint8_t*>(printf_buffer_address());
    uint32_t written;
    std::memcpy(&written, buffer, sizeof written);
    if (written == 0) {
        return;
    }
    const auto known = parse_formats(formats);
    std::span<const uint8_t> rest(buffer + kHeaderSize,
                                  std::min<size_t>(written, kBufferSize - kHeaderSize));
    while (rest.size() >= sizeof(uint32_t)) {
        uint32_t control;
        std::memcpy(&control, rest.data(), sizeof control);
        const uint32_t size = control >> kSizeShift;
        if (size < sizeof control || size > rest.size()) {
            log_error("a kernel left a damaged record in the printf buffer");
            return;
        }
        print_record(rest.subspan(sizeof control, size - sizeof control), control, known);
        rest = rest.subspan(size);
    }
}

}  // namespace asmevo::emulator::hip
