// How late results reach the units that read them, where hardware does not wait by itself.
//
// A table of the pipelines, by the unit that makes a result and the port through which it is read, in wait states: one for
// an instruction of the wave, N + 1 for s_nop N (CDNA3 ISA 4.5 and 7.5, CDNA4 ISA 7.6; numbers as LLVM 22 keeps them). It
// knows nothing of which pairs of instructions a checker reports, and shares no code with exec/checks.
#pragma once

#include "isa/inst.h"

namespace asmevo::emulator {

/// The way by which an instruction reads a register.
enum class Port : uint8_t {
    kVector,          // VGPR of a vector operation
    kDotSum,          // the sum of a dot product
    kSwizzle,         // what comes from other lanes: DPP's first operand, lane swaps
    kLaneRead,        // v_readlane, v_readfirstlane
    kMatrixFactor,    // A, B, the index of sparse operations, scales
    kMatrixSum,       // C
    kMemoryVector,    // addresses and data of memory operations
    kScalar,          // SGPR, VCC of a vector operation
    kLaneSelect,      // of v_readlane, v_writelane
    kDivisionFlag,    // VCC of v_div_fmas
    kMemoryScalar,    // SGPRs of vector memory operations
};

struct PortRead {
    RegSpan span;
    Port port;
};

enum class Unit : uint8_t { kOther, kVector, kMatrix };
enum class MatrixPipe : uint8_t { kSmall, kSingle, kDouble };  // 16-bit and smaller and xf32; f32; f64

/// What of an instruction decides how late its results are and through which ports it reads.
struct PipeTraits {
    explicit PipeTraits(const Inst& inst);

    const Inst* inst;
    Unit unit = Unit::kOther;
    MatrixPipe pipe = MatrixPipe::kSmall;
    uint8_t passes = 0;             // of four cycles
    uint8_t states = 1;             // wait states that it takes
    bool is_transcendental = false;
    bool moves_bits = false;        // within its result: SDWA, op_sel
    bool is_dot = false;
    bool writes_exec = false;       // by the vector unit
    bool writes_m0 = false;         // by the scalar unit
    bool sets_hwreg = false, gets_hwreg = false;
    bool reads_late_m0 = false;     // LDS-DMA, ds_*_addtid, s_movrel, messages, GDS
    uint8_t exec_delay = 0;         // behind v_cmpx
    uint8_t data_delay = 0;         // wide stores: data registers are read that much after issue
    RegSpan data;
    PortRead reads[8];
    uint8_t read_count = 0;

  private:
    void add(const Operand& operand, Port port);
    void describe_vector();
    void describe_matrix();
    void describe_memory();
    void describe_scalar();
};

/// Wait states from `producer` to a read of what it wrote; fewer, and the read gets what was there before.
unsigned read_delay(const PipeTraits& producer, const PipeTraits& consumer, const PortRead& read);
/// To a vector operation that writes the same register; fewer, and the older result arrives behind the newer.
unsigned overwrite_delay(const PipeTraits& producer, const PipeTraits& consumer);
/// To a vector operation that overwrites the sum that a matrix operation reads; fewer, and it reads the new one.
unsigned sum_delay(const PipeTraits& producer);

/// The longest of all.
constexpr unsigned kLongestDelay = 20;

}  // namespace asmevo::emulator
