#include <string>

#include "exec/fault.h"
#include "exec/wave.h"

namespace asmevo::emulator {

void refuse_operation(Wave&, const Inst& inst) {
    throw Fault(std::string(inst.info->name) + " is not implemented: " + inst.info->note);
}

}  // namespace asmevo::emulator
