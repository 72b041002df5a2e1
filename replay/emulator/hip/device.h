// The emulated device: which chip it is, and the state that belongs to it.
#pragma once

#include <cstdint>

#include "exec/dispatch.h"

namespace asmevo::emulator::hip {

/// A product: geometry and rates as AMD publishes them.
struct Chip {
    const char* id;    // "mi300x", as in ASMEVO_EMULATOR_CHIP
    const char* name;  // marketing name
    Target target;
    uint32_t compute_units, xcds;
    uint32_t lds_bytes;  // per compute unit
    uint32_t clock_khz, memory_clock_khz, memory_bus_bits;
    uint64_t memory_bytes;
    uint32_t l2_bytes;  // per XCD
    uint32_t pci_device_id;
};

/// The chip named by ASMEVO_EMULATOR_CHIP and ASMEVO_EMULATOR_ARCH.
const Chip& chip();
const char* target_name(Target target);
/// "gfx942:sramecc+:xnack-".
const char* gcn_arch_name();
/// Memory that the device says it has: the chip's, or the machine's if that is less.
uint64_t device_memory_bytes();
bool is_unified();

/// One hipCtx_t for the one device.
struct Context {
    int device = 0;
};
Context* primary_context();

/// Options of launches, from the environment and asmevo_emulator_set_option.
DispatchOptions dispatch_options();
/// False when the name or the value is not known.
bool set_dispatch_option(const char* name, const char* value);

}  // namespace asmevo::emulator::hip
