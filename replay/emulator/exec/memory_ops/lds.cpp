#include "exec/memory_ops/lds.h"

#include <cinttypes>
#include <cstdio>

#include "exec/occupancy.h"

namespace asmevo::emulator {

void throw_lds_out_of_range(uint64_t address, uint32_t size, uint64_t allocated, int lane) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "LDS access of %u bytes at 0x%" PRIx64 " is outside the workgroup's %" PRIu64
                  " bytes",
                  size, address, allocated);
    throw Fault(text, lane, "out-of-bounds");
}

void throw_misaligned(const char* space, uint64_t address, uint32_t alignment, int lane) {
    char text[128];
    std::snprintf(text, sizeof text, "%s atomic at 0x%" PRIx64 " is not aligned to %u bytes", space,
                  address, alignment);
    throw Fault(text, lane, "misaligned");
}

bool is_held_back(const Inst& inst, uint64_t base) {
    return base + 4 > lds_bytes_per_unit(inst.target);
}

}  // namespace asmevo::emulator
