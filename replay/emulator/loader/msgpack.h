// A reader of MessagePack for the code object's metadata note. The input is hostile: every read is
// bounded, and nesting and element counts are limited by the input's size.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace asmevo::emulator {

/// Reads values in order; throws LoadError on a cut or mistyped value. Keeps views into the input.
class MsgpackReader {
  public:
    explicit MsgpackReader(std::span<const uint8_t> data) : data_(data) {}

    /// Number of key-value pairs of the map that starts here.
    uint32_t read_map();
    /// Number of elements of the array that starts here.
    uint32_t read_array();
    std::string_view read_string();
    uint64_t read_unsigned();
    bool read_bool();
    /// Steps over one value of any type.
    void skip();

  private:
    uint8_t take();
    uint64_t take_big_endian(unsigned bytes);
    void advance(uint64_t bytes);
    void skip_nested(unsigned depth);

    std::span<const uint8_t> data_;
    size_t at_ = 0;
};

}  // namespace asmevo::emulator
