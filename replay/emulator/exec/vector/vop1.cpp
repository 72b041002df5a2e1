#include "isa/tables.h"

namespace asmevo::emulator {

std::span<const OpInfo> vop1_ops() { return {}; }

}  // namespace asmevo::emulator
