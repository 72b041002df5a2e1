#include "loader/offload_bundle.h"

#include <cstring>
#include <string_view>

#include "loader/load_error.h"

namespace asmevo::emulator {
namespace {

constexpr std::string_view kMagic = "__CLANG_OFFLOAD_BUNDLE__";
constexpr uint64_t kMaxEntries = 1024;

/// Takes the next 64-bit number off the front.
uint64_t take(std::span<const uint8_t>& data) {
    if (data.size() < 8) {
        throw_invalid("the offload bundle is cut");
    }
    uint64_t value;
    std::memcpy(&value, data.data(), 8);
    data = data.subspan(8);
    return value;
}

/// Whether an entry id ("hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-") can run on the device,
/// whose features are sramecc+ and xnack-.
bool is_compatible(std::string_view id, Target device) {
    if (!id.starts_with("hip-") && !id.starts_with("hipv4-")) {
        return false;
    }
    const size_t at = id.rfind("gfx");
    if (at == std::string_view::npos) {
        return false;
    }
    std::string_view target = id.substr(at);
    const size_t colon = target.find(':');
    const std::string_view processor = target.substr(0, colon);
    const std::string_view features = colon == std::string_view::npos ? "" : target.substr(colon);
    const bool is_processor = (device == Target::kGfx90a && processor == "gfx90a") ||
                              (device == Target::kGfx942 && processor == "gfx942") ||
                              (device == Target::kGfx950 && processor == "gfx950") ||
                              (device != Target::kGfx90a && processor == "gfx9-4-generic");
    return is_processor && features.find("xnack+") == std::string_view::npos &&
           features.find("sramecc-") == std::string_view::npos;
}

}  // namespace

bool is_offload_bundle(std::span<const uint8_t> data) {
    return data.size() >= kMagic.size() &&
           std::memcmp(data.data(), kMagic.data(), kMagic.size()) == 0;
}

std::span<const uint8_t> find_bundled(std::span<const uint8_t> data, Target device) {
    auto rest = data.subspan(kMagic.size());
    const uint64_t count = take(rest);
    if (count > kMaxEntries) {
        throw_invalid("the offload bundle claims too many entries");
    }
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t offset = take(rest), size = take(rest), id_size = take(rest);
        if (id_size > rest.size()) {
            throw_invalid("the offload bundle is cut");
        }
        const std::string_view id(reinterpret_cast<const char*>(rest.data()), id_size);
        rest = rest.subspan(id_size);
        if (size != 0 && is_compatible(id, device)) {
            if (offset > data.size() || data.size() - offset < size) {
                throw_invalid("an entry of the offload bundle lies outside it");
            }
            return data.subspan(offset, size);
        }
    }
    throw LoadError(LoadError::Kind::kNoBinaryForGpu,
                    "the offload bundle has no code object for the device");
}

}  // namespace asmevo::emulator
