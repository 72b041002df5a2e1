#include "isa/tables.h"

namespace asmevo::emulator {

std::span<const OpInfo> vop2_ops() { return {}; }

}  // namespace asmevo::emulator
