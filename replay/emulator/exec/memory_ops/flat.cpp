#include "isa/tables.h"

namespace asmevo::emulator {

std::span<const OpInfo> flat_ops() { return {}; }

}  // namespace asmevo::emulator
