#include "loader/msgpack.h"

#include "loader/load_error.h"

namespace asmevo::emulator {
namespace {

constexpr unsigned kMaxDepth = 16;  // AMDGPU metadata nests five deep

}  // namespace

uint8_t MsgpackReader::take() {
    if (at_ >= data_.size()) {
        throw_invalid("the metadata note is cut");
    }
    return data_[at_++];
}

uint64_t MsgpackReader::take_big_endian(unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) {
        value = value << 8 | take();
    }
    return value;
}

void MsgpackReader::advance(uint64_t bytes) {
    if (bytes > data_.size() - at_) {
        throw_invalid("the metadata note is cut");
    }
    at_ += bytes;
}

uint32_t MsgpackReader::read_map() {
    const uint8_t tag = take();
    const uint64_t count = (tag & 0xf0) == 0x80 ? tag & 0x0f
                           : tag == 0xde        ? take_big_endian(2)
                           : tag == 0xdf        ? take_big_endian(4)
                                                : UINT64_MAX;
    if (count > (data_.size() - at_) / 2) {  // a pair takes two bytes at least
        throw_invalid("the metadata note has no valid map where one is expected");
    }
    return static_cast<uint32_t>(count);
}

uint32_t MsgpackReader::read_array() {
    const uint8_t tag = take();
    const uint64_t count = (tag & 0xf0) == 0x90 ? tag & 0x0f
                           : tag == 0xdc        ? take_big_endian(2)
                           : tag == 0xdd        ? take_big_endian(4)
                                                : UINT64_MAX;
    if (count > data_.size() - at_) {
        throw_invalid("the metadata note has no valid array where one is expected");
    }
    return static_cast<uint32_t>(count);
}

std::string_view MsgpackReader::read_string() {
    const uint8_t tag = take();
    uint64_t size;
    if ((tag & 0xe0) == 0xa0) {
        size = tag & 0x1f;
    } else if (tag >= 0xd9 && tag <= 0xdb) {
        size = take_big_endian(1u << (tag - 0xd9));
    } else {
        throw_invalid("the metadata note has no string where one is expected");
    }
    const size_t start = at_;
    advance(size);
    return {reinterpret_cast<const char*>(data_.data()) + start, size};
}

uint64_t MsgpackReader::read_unsigned() {
    const uint8_t tag = take();
    if (tag < 0x80) {
        return tag;
    }
    if (tag >= 0xcc && tag <= 0xcf) {
        return take_big_endian(1u << (tag - 0xcc));
    }
    if (tag >= 0xd0 && tag <= 0xd3) {  // a signed form: writers use it for small values too
        const unsigned bytes = 1u << (tag - 0xd0);
        const uint64_t value = take_big_endian(bytes);
        if (value >> (8 * bytes - 1) == 0) {
            return value;
        }
    }
    throw_invalid("the metadata note has no unsigned number where one is expected");
}

bool MsgpackReader::read_bool() {
    const uint8_t tag = take();
    if (tag != 0xc2 && tag != 0xc3) {
        throw_invalid("the metadata note has no boolean where one is expected");
    }
    return tag == 0xc3;
}

void MsgpackReader::skip() {
    skip_nested(0);
}

void MsgpackReader::skip_nested(unsigned depth) {
    if (depth > kMaxDepth) {
        throw_invalid("the metadata note nests too deep");
    }
    const uint8_t tag = take();
    --at_;
    if ((tag & 0xf0) == 0x80 || tag == 0xde || tag == 0xdf) {
        for (uint64_t left = 2ull * read_map(); left > 0; --left) {
            skip_nested(depth + 1);
        }
    } else if ((tag & 0xf0) == 0x90 || tag == 0xdc || tag == 0xdd) {
        for (uint32_t left = read_array(); left > 0; --left) {
            skip_nested(depth + 1);
        }
    } else if ((tag & 0xe0) == 0xa0 || (tag >= 0xd9 && tag <= 0xdb)) {
        read_string();
    } else {
        take();
        if (tag >= 0xc4 && tag <= 0xc6) {  // binary
            advance(take_big_endian(1u << (tag - 0xc4)));
        } else if (tag >= 0xc7 && tag <= 0xc9) {  // extension: a type byte more
            const uint64_t size = take_big_endian(1u << (tag - 0xc7));
            advance(size + 1);
        } else if (tag >= 0xd4 && tag <= 0xd8) {  // fixed extension
            advance((1u << (tag - 0xd4)) + 1);
        } else if (tag == 0xca || tag == 0xcb) {  // float
            advance(tag == 0xca ? 4 : 8);
        } else if (tag >= 0xcc && tag <= 0xcf) {
            advance(1u << (tag - 0xcc));
        } else if (tag >= 0xd0 && tag <= 0xd3) {
            advance(1u << (tag - 0xd0));
        } else if (tag == 0xc1) {
            throw_invalid("the metadata note is not MessagePack");
        }
    }
}

}  // namespace asmevo::emulator
