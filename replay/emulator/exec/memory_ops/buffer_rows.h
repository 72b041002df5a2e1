// Table rows of MUBUF and MTBUF operations.
#pragma once

#include <span>

#include "isa/op_info.h"

namespace asmevo::emulator {

constexpr OpInfo buffer_row(Encoding encoding, const char* name, uint16_t opcode,
                            TargetMask targets, Category category, Type loaded, Type stored,
                            uint32_t flags, Handler run) {
    return OpInfo{
        .name = name,
        .encoding = encoding,
        .opcode = opcode,
        .targets = targets,
        .category = category,
        .dst = {loaded, Type::kNone},
        .src = {Type::kB64, stored, Type::kB128, Type::kB32},
        .flags = flags,
        .run = run,
    };
}

std::span<const OpInfo> buffer_atomic_rows();
std::span<const OpInfo> buffer_format_rows();

}  // namespace asmevo::emulator
