#include "isa/tables.h"

namespace asmevo::emulator {

std::span<const OpInfo> mubuf_ops() { return {}; }

}  // namespace asmevo::emulator
