#include "isa/tables.h"

namespace asmevo::emulator {

std::span<const OpInfo> ds_ops() { return {}; }

}  // namespace asmevo::emulator
