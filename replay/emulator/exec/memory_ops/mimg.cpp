// MIMG: image operations. LLVM knows them for gfx90a; no CDNA device has the texture units, and HIP reports no image
// support there, so a program cannot own the descriptors that they need. They are decoded to be refused by name.
#include "isa/tables.h"

namespace asmevo::emulator {
namespace {

constexpr OpInfo row(const char* name, uint16_t opcode) {
    return missing(OpInfo{.name = name,
                          .encoding = Encoding::kMimg,
                          .opcode = opcode,
                          .targets = kGfx90aBit,
                          .category = Category::kVmemLoad,
                          .dst = {},
                          .src = {},
                          .flags = kReadsExec,
                          .run = nullptr},
                   "CDNA devices have no image support");
}

constexpr OpInfo kRows[] = {
    row("image_load", 0x0),
    row("image_load_mip", 0x1),
    row("image_load_pck", 0x2),
    row("image_load_pck_sgn", 0x3),
    row("image_load_mip_pck", 0x4),
    row("image_load_mip_pck_sgn", 0x5),
    row("image_store", 0x8),
    row("image_store_mip", 0x9),
    row("image_store_pck", 0xa),
    row("image_store_mip_pck", 0xb),
    row("image_get_resinfo", 0xe),
    row("image_atomic_swap", 0x10),
    row("image_atomic_cmpswap", 0x11),
    row("image_atomic_add", 0x12),
    row("image_atomic_sub", 0x13),
    row("image_atomic_smin", 0x14),
    row("image_atomic_umin", 0x15),
    row("image_atomic_smax", 0x16),
    row("image_atomic_umax", 0x17),
    row("image_atomic_and", 0x18),
    row("image_atomic_or", 0x19),
    row("image_atomic_xor", 0x1a),
    row("image_atomic_inc", 0x1b),
    row("image_atomic_dec", 0x1c),
    row("image_sample", 0x20),
};

}  // namespace

std::span<const OpInfo> image_ops() { return kRows; }

}  // namespace asmevo::emulator
