#include "loader/compressed_bundle.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "loader/load_error.h"

namespace asmevo::emulator {
namespace {

constexpr std::string_view kMagic = "CCOB";
constexpr uint16_t kMethodZstd = 1;
constexpr uint64_t kMaxSize = 1ull << 32;

/// Header fields by version, LLVM's OffloadBundler.cpp: magic, version (u16), method (u16), then
/// from version 2 the file's size, then the uncompressed size (both u32, u64 from version 3), then
/// a hash (u64).
struct Header {
    uint16_t method = 0;
    uint64_t file_size = 0;  // 0: unknown (version 1)
    uint64_t uncompressed_size = 0;
    size_t size = 0;
};

template <typename Value>
Value read_at(std::span<const uint8_t> data, size_t offset) {
    if (offset > data.size() || data.size() - offset < sizeof(Value)) {
        throw_invalid("the compressed offload bundle is cut");
    }
    Value value;
    std::memcpy(&value, data.data() + offset, sizeof value);
    return value;
}

Header read_header(std::span<const uint8_t> data) {
    Header header;
    const auto version = read_at<uint16_t>(data, 4);
    header.method = read_at<uint16_t>(data, 6);
    if (version == 1) {
        header.uncompressed_size = read_at<uint32_t>(data, 8);
        header.size = 20;
    } else if (version == 2) {
        header.file_size = read_at<uint32_t>(data, 8);
        header.uncompressed_size = read_at<uint32_t>(data, 12);
        header.size = 24;
    } else if (version == 3) {
        header.file_size = read_at<uint64_t>(data, 8);
        header.uncompressed_size = read_at<uint64_t>(data, 16);
        header.size = 32;
    } else {
        throw_invalid("the compressed offload bundle has version " + std::to_string(version));
    }
    const uint64_t available = header.file_size == 0 ? data.size() : header.file_size;
    if (available > data.size() || available < header.size || header.uncompressed_size > kMaxSize) {
        throw_invalid("the compressed offload bundle lies about its size");
    }
    return header;
}

/// The parts of zstd's stable C API that decompress one frame.
struct Zstd {
    size_t (*decompress)(void*, size_t, const void*, size_t) = nullptr;
    size_t (*find_frame_size)(const void*, size_t) = nullptr;
    unsigned (*is_error)(size_t) = nullptr;

    /// Opened on first use: only programs with compressed bundles need it.
    static const Zstd& get() {
        static const Zstd instance = [] {
            Zstd zstd;
            if (void* library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL)) {
                const auto find = [&](auto& function, const char* name) {
                    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
                        dlsym(library, name));
                };
                find(zstd.decompress, "ZSTD_decompress");
                find(zstd.find_frame_size, "ZSTD_findFrameCompressedSize");
                find(zstd.is_error, "ZSTD_isError");
            }
            return zstd;
        }();
        if (!instance.decompress || !instance.find_frame_size || !instance.is_error) {
            throw_invalid("compressed offload bundles need libzstd.so.1, which this machine lacks");
        }
        return instance;
    }
};

}  // namespace

bool is_compressed_bundle(std::span<const uint8_t> data) {
    return data.size() >= kMagic.size() &&
           std::memcmp(data.data(), kMagic.data(), kMagic.size()) == 0;
}

std::vector<uint8_t> decompress_bundle(std::span<const uint8_t> data) {
    const Header header = read_header(data);
    if (header.method != kMethodZstd) {
        throw_invalid("the compressed offload bundle is not zstd");
    }
    const Zstd& zstd = Zstd::get();
    const auto body =
        data.first(header.file_size == 0 ? data.size() : header.file_size).subspan(header.size);
    const size_t frame_size = zstd.find_frame_size(body.data(), body.size());
    if (zstd.is_error(frame_size) || frame_size > body.size()) {
        throw_invalid("the compressed offload bundle is damaged");
    }
    // A zstd frame expands at most some thousandfold: a size beyond that is a lie not worth the
    // memory.
    if (header.uncompressed_size / 65536 > frame_size) {
        throw_invalid("the compressed offload bundle lies about its size");
    }
    std::vector<uint8_t> out(header.uncompressed_size);
    const size_t size = zstd.decompress(out.data(), out.size(), body.data(), frame_size);
    if (zstd.is_error(size) || size != out.size()) {
        throw_invalid("the compressed offload bundle is damaged");
    }
    return out;
}

}  // namespace asmevo::emulator
