// The decoder as a C function, for tests that compare it with LLVM's disassembler.
#include <algorithm>
#include <cstring>
#include <exception>
#include <string_view>

#include "isa/inst.h"

namespace asmevo::emulator {
namespace {

bool parse_target(std::string_view name, Target& target) {
    if (name == "gfx90a") {
        target = Target::kGfx90a;
    } else if (name == "gfx942") {
        target = Target::kGfx942;
    } else if (name == "gfx950") {
        target = Target::kGfx950;
    } else {
        return false;
    }
    return true;
}

void copy_text(std::string_view text, char* out, size_t capacity) {
    if (capacity == 0) {
        return;
    }
    size_t size = std::min(text.size(), capacity - 1);
    std::memcpy(out, text.data(), size);
    out[size] = '\0';
}

}  // namespace
}  // namespace asmevo::emulator

/// Decodes one instruction; returns its size in dwords with its assembly text, or -1 with the reason.
extern "C" __attribute__((visibility("default"))) int asmevo_emulator_decode(
    const char* target_name, const uint32_t* words, size_t count, char* text, size_t capacity) {
    using namespace asmevo::emulator;
    try {
        Target target;
        if (!parse_target(target_name, target)) {
            copy_text("unknown target", text, capacity);
            return -1;
        }
        Inst inst;
        std::string error;
        if (!decode(target, words, count, inst, error)) {
            copy_text(error, text, capacity);
            return -1;
        }
        copy_text(format(inst), text, capacity);
        return inst.size_dwords;
    } catch (const std::exception& error) {
        copy_text(error.what(), text, capacity);
        return -1;
    }
}
