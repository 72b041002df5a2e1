#include "isa/tables.h"

namespace asmevo::emulator {

std::span<const OpInfo> vopc_ops() { return {}; }

}  // namespace asmevo::emulator
