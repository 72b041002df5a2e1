#include "isa/tables.h"

namespace asmevo::emulator {

std::span<const OpInfo> smem_ops() { return {}; }

}  // namespace asmevo::emulator
