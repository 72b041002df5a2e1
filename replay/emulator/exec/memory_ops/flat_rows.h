// Table rows of FLAT, GLOBAL and SCRATCH operations.
#pragma once

#include <span>

#include "exec/memory_ops/flat_address.h"
#include "isa/op_info.h"

namespace asmevo::emulator {

enum class Access : uint8_t { kLoad, kStore, kAtomic };

template <Segment S>
constexpr Category flat_category(Access access) {
    if constexpr (S == Segment::kFlat) {
        return access == Access::kLoad    ? Category::kFlatLoad
               : access == Access::kStore ? Category::kFlatStore
                                          : Category::kFlatAtomic;
    }
    return access == Access::kLoad    ? Category::kVmemLoad
           : access == Access::kStore ? Category::kVmemStore
                                      : Category::kVmemAtomic;
}

/// A FLAT access may touch LDS, hence kLds on that segment.
template <Segment S>
constexpr OpInfo flat_row(const char* name, uint16_t opcode, TargetMask targets, Access access,
                          Type loaded, Type stored, uint32_t flags, Handler run) {
    constexpr Encoding encoding = S == Segment::kFlat     ? Encoding::kFlat
                                  : S == Segment::kGlobal ? Encoding::kGlobal
                                                          : Encoding::kScratch;
    return OpInfo{
        .name = name,
        .encoding = encoding,
        .opcode = opcode,
        .targets = targets,
        .category = flat_category<S>(access),
        .dst = {loaded, Type::kNone},
        .src = {S == Segment::kScratch ? Type::kB32 : Type::kB64, stored,
                S == Segment::kScratch ? Type::kB32 : Type::kB64, Type::kNone},
        .flags = flags | (S == Segment::kFlat ? kLds : kNoFlags),
        .run = run,
    };
}

std::span<const OpInfo> flat_atomic_rows();

}  // namespace asmevo::emulator
