// Which LDS bytes an instruction touches, read off its name and operand types.
#include <string_view>

#include "isa/decoder.h"

namespace asmevo::emulator {
namespace {

bool has(std::string_view name, std::string_view part) { return name.find(part) != name.npos; }

LdsShape from_memory(std::string_view name) {
    LdsShape shape;
    shape.pieces = 1;
    shape.bytes = has(name, "dwordx4") ? 16 : has(name, "dwordx3") ? 12 : 4;
    shape.is_write = shape.from_memory = true;
    return shape;
}

uint8_t element_bytes(std::string_view name, unsigned register_bytes) {
    if (has(name, "_tr_")) {
        return static_cast<uint8_t>(register_bytes);
    }
    if (has(name, "_u8") || has(name, "_i8") || has(name, "_b8")) {
        return 1;
    }
    if (has(name, "_u16") || has(name, "_i16") || has(name, "_b16")) {
        return 2;
    }
    return static_cast<uint8_t>(register_bytes);
}

}  // namespace

LdsShape lds_shape(const Inst& inst) {
    const OpInfo& info = *inst.info;
    std::string_view name = info.name;
    bool is_load = info.category == Category::kVmemLoad;
    if (is_load && (inst.lds || (info.flags & kLds))) {
        return from_memory(name);
    }
    if (info.encoding != Encoding::kDs || !(info.flags & kLds) || !inst.src[0]) {
        return {};
    }
    LdsShape shape;
    bool is_pair = has(name, "read2") || has(name, "write2") || has(name, "wrxchg2");
    unsigned data = 4u * inst.src[1].dwords, loaded = 4u * inst.dst[0].dwords;
    shape.pieces = is_pair ? 2 : 1;
    shape.is_write = static_cast<bool>(inst.src[1]);
    shape.is_atomic = shape.is_write && !name.starts_with("ds_write");
    shape.bytes = element_bytes(name, shape.is_write ? data : is_pair ? loaded / 2 : loaded);
    if (is_pair) {
        shape.scale = static_cast<uint16_t>(shape.bytes * (has(name, "st64") ? 64 : 1));
    }
    return shape;
}

}  // namespace asmevo::emulator
