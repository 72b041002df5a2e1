// How undefined bits go from the operands of an instruction to its results.
#pragma once

#include "isa/inst.h"

namespace asmevo::emulator {

enum class Flow : uint8_t {
    kNone,        // reads and writes nothing that could be undefined
    kAny,         // one undefined bit of a lane's operands makes its results undefined
    kAnyHalves,   // the same for the two halves or dwords of packed operands apart
    kShadow,      // moves bits: the handler itself, run on the undefined bits, moves them
    kAnd, kOr,    // a defined 0 or 1 decides
    kXor,         // bit by bit
    kSum,         // carries go upwards
    kPermute,     // v_perm_b32
    kMatrix,
    kLaneAtomic,  // LDS atomics: memory and result
    kLoad,        // defines its results, but for what this dispatch left undefined in memory
    kStore,       // memory keeps it
    kScalar,      // SALU: by name
    kBranch,      // takes the way that a scalar says
};

/// What a scalar operation does to undefined bits.
enum class ScalarFlow : uint8_t {
    kAny,            // one makes all of the result undefined
    kJump,           // s_setpc, s_swappc: the source is an address
    kConstant,       // the result is defined
    kMove,
    kSelect,         // by SCC
    kMoveIf,         // by SCC; otherwise the destination stays
    kAnd, kOr, kXor,
    kShiftLeft, kShiftRight, kShiftRightSigned, kExtract,  // by a defined amount
};

struct ScalarPlan {
    ScalarFlow flow = ScalarFlow::kAny;
    bool writes_exec = false;  // s_*_saveexec, s_*_wrexec: a bitwise operation with EXEC whose result goes there
    bool inverts_first = false, inverts_second = false, inverts_result = false;
};

struct FlowPlan {
    Flow flow = Flow::kNone;
    bool reaches_memory = false;  // its result depends on more than its registers
    bool uses_scc = false;
    ScalarPlan scalar;            // of Flow::kScalar
    uint8_t real_sources = 0;     // bit per source that must keep its value for a kShadow handler: shifts, addresses
    uint8_t address_sources = 0;  // bit per source that is an address
    Inst shadow;                  // without modifiers and constants, which are defined
};

FlowPlan flow_plan(const Inst& inst);
ScalarPlan scalar_plan(const Inst& inst);

}  // namespace asmevo::emulator
