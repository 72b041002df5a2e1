#include "isa/tables.h"

namespace asmevo::emulator {

std::span<const OpInfo> sop_ops() { return {}; }

}  // namespace asmevo::emulator
