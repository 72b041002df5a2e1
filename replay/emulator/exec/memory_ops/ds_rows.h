// Table rows of DS operations.
#pragma once

#include <span>

#include "isa/op_info.h"

namespace asmevo::emulator {

struct DsOperands {
    Type loaded = Type::kNone, address = Type::kB32, data0 = Type::kNone, data1 = Type::kNone;
};

constexpr OpInfo ds_row(const char* name, uint16_t opcode, TargetMask targets, DsOperands operands,
                        uint32_t flags, Handler run) {
    return OpInfo{
        .name = name,
        .encoding = Encoding::kDs,
        .opcode = opcode,
        .targets = targets,
        .category = operands.loaded == Type::kNone ? Category::kLdsNoReturn : Category::kLds,
        .dst = {operands.loaded, Type::kNone},
        .src = {operands.address, operands.data0, operands.data1, Type::kNone},
        .flags = flags,
        .run = run,
    };
}

std::span<const OpInfo> ds_atomic_rows();
std::span<const OpInfo> ds_lane_rows();

}  // namespace asmevo::emulator
