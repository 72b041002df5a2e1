#include "exec/listing.h"

#include "exec/wave_setup.h"
#include "isa/format.h"

namespace asmevo::emulator {
namespace {

/// Text and size at `pc`; size 0 when nothing decodes there.
std::string text_at(const CodeSegment& code, uint64_t pc, unsigned& size_dwords) {
    size_dwords = 0;
    uint64_t offset = pc - code.address();
    if (offset >= code.size() || (offset & 3)) {
        return "";
    }
    Inst inst;
    std::string error;
    if (!decode(code.target(), reinterpret_cast<const uint32_t*>(pc), (code.size() - offset) / 4, inst,
                error)) {
        return "(" + error + ")";
    }
    size_dwords = inst.size_dwords;
    return format(inst);
}

/// Addresses of the last `count` instructions before `pc`.
std::vector<uint64_t> addresses_before(const KernelImage& kernel, uint64_t pc, size_t count) {
    std::vector<uint64_t> found;
    for (uint64_t at = start_address(kernel); at < pc;) {
        unsigned size = 0;
        text_at(*kernel.code, at, size);
        if (size == 0) {
            return {};
        }
        found.push_back(at);
        at += 4ull * size;
    }
    if (found.size() > count) {
        found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(count));
    }
    return found;
}

}  // namespace

std::string instruction_text(const CodeSegment& code, uint64_t pc) {
    unsigned size = 0;
    return text_at(code, pc, size);
}

std::vector<ListingLine> list_around(const KernelImage& kernel, uint64_t pc, size_t context) {
    std::vector<ListingLine> lines;
    unsigned size = 0;
    for (uint64_t at : addresses_before(kernel, pc, context)) {
        lines.push_back({at, text_at(*kernel.code, at, size)});
    }
    uint64_t at = pc;
    for (size_t i = 0; i <= context; ++i) {
        std::string text = text_at(*kernel.code, at, size);
        if (text.empty()) {
            break;
        }
        lines.push_back({at, std::move(text)});
        if (size == 0) {
            break;
        }
        at += 4ull * size;
    }
    return lines;
}

}  // namespace asmevo::emulator
