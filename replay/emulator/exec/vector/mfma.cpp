#include "isa/tables.h"

namespace asmevo::emulator {

std::span<const OpInfo> mfma_ops() { return {}; }

}  // namespace asmevo::emulator
