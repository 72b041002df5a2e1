// Scalar operands at run time.
#include "exec/wave.h"

namespace asmevo::emulator {
namespace {

uint64_t special_value(const Wave& wave, unsigned code) {
    switch (code) {
        case 235: return kSharedApertureBase;
        case 236: return kSharedApertureBase + kApertureSize - 1;
        case 237: return kPrivateApertureBase;
        case 238: return kPrivateApertureBase + kApertureSize - 1;
        case 251: return wave.vcc() == 0;
        case 252: return wave.exec() == 0;
        case 253: return wave.scc;
        default: return 0;
    }
}

}  // namespace

uint32_t read_scalar32(const Wave& wave, const Operand& operand) {
    switch (operand.kind) {
        case OperandKind::kSgpr: return wave.sgpr[operand.index];
        case OperandKind::kConst: return static_cast<uint32_t>(operand.constant);
        case OperandKind::kSpecial: return static_cast<uint32_t>(special_value(wave, operand.index));
        default: return 0;
    }
}

uint64_t read_scalar64(const Wave& wave, const Operand& operand) {
    switch (operand.kind) {
        case OperandKind::kSgpr: return wave.read64(operand.index);
        case OperandKind::kConst: return operand.constant;
        case OperandKind::kSpecial: return special_value(wave, operand.index);
        default: return 0;
    }
}

void write_scalar32(Wave& wave, const Operand& operand, uint32_t value) {
    wave.sgpr[operand.index] = value;
}

void write_scalar64(Wave& wave, const Operand& operand, uint64_t value) {
    wave.write64(operand.index, value);
}

}  // namespace asmevo::emulator
