#include "isa/tables.h"

namespace asmevo::emulator {

std::span<const OpInfo> vop3p_ops() { return {}; }

}  // namespace asmevo::emulator
