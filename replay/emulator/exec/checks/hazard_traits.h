// What the hazard rules look at in an instruction, worked out once.
#pragma once

#include "isa/inst.h"

namespace asmevo::emulator {

/// Kinds of instructions that some producer must keep away from.
enum HazardUse : uint16_t {
    kNoUse = 0,
    kVmemUse = 1u << 0,       // buffer, global, flat, scratch
    kLdsUse = 1u << 1,
    kValuUse = 1u << 2,       // vector arithmetic that is no matrix operation
    kMatrixUse = 1u << 3,
    kDppUse = 1u << 4,
    kLaneReadUse = 1u << 5,   // v_readlane, v_readfirstlane
    kLaneWriteUse = 1u << 6,
    kLaneSwapUse = 1u << 7,   // v_permlane16_swap, v_permlane32_swap
    kDivFmasUse = 1u << 8,
    kFmaF64Use = 1u << 9,
    kSetregUse = 1u << 10,    // s_setreg, s_getreg
    kLateM0Use = 1u << 11,    // takes M0 outside the scalar unit, or as a register index
    kAnyUse = 0x0fff,
};

/// The three matrix pipelines differ in their hazards.
enum class MatrixKind : uint8_t { kNone, kXdl, kSgemm, kDgemm };

struct HazardTraits {
    const Inst* inst = nullptr;
    uint16_t uses = 0;          // as a consumer
    uint16_t interests = 0;     // as a producer: the consumers that may be too close
    uint8_t reach = 0;          // no rule asks this producer for more wait states
    uint8_t states = 1;         // wait states that it gives; s_nop N gives N + 1
    MatrixKind matrix = MatrixKind::kNone;
    uint8_t passes = 0;
    bool is_transcendental = false;
    bool is_dot = false;
    bool is_packed = false;            // VOP3P arithmetic
    bool shifts_destination = false;   // moves bits within the result
    bool preserves_destination = false;  // keeps part of it
    bool writes_exec = false, writes_scalar = false, writes_vector = false;  // by the VALU
    Operand lane_select;               // of v_readlane, v_writelane
    RegSpan wide_data{};               // store data that is read after issue; count 0: none
};

HazardTraits hazard_traits(const Inst& inst);

}  // namespace asmevo::emulator
