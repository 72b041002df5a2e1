// One operation table out of several arrays of rows.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "isa/op_info.h"

namespace asmevo::emulator {

inline std::vector<OpInfo> join_rows(std::initializer_list<std::span<const OpInfo>> parts) {
    std::vector<OpInfo> all;
    for (const std::span<const OpInfo> part : parts) {
        for (const OpInfo& row : part) {
            all.push_back(row);
        }
    }
    return all;
}

}  // namespace asmevo::emulator
