#include "isa/tables.h"

namespace asmevo::emulator {

std::span<const OpInfo> vop3_ops() { return {}; }

}  // namespace asmevo::emulator
