#include "exec/timing.h"

#include <bit>

namespace asmevo::emulator {
namespace {

constexpr uint16_t kSleepOpcode = 14, kNopOpcode = 0;

uint64_t nop_cycles(const Inst& inst) {
    auto simm = static_cast<uint32_t>(inst.simm);
    switch (inst.info->opcode) {
        case kNopOpcode: return kTurn * ((simm & 15) + 1);
        case kSleepOpcode: return kTurn + 64ull * (simm & 127);
        default: return kTurn;
    }
}

/// Cycles of the matrix core. The table's passes are gfx942's; on gfx950 f64 takes twice as many (llvm-mca) and
/// f8f6f4 with an 8-bit operand too (CDNA4 ISA 7.1.2).
uint64_t matrix_cycles(const Inst& inst) {
    constexpr uint16_t kF64 = 0x6e, kF8f6f4 = 0x2d, kF8f6f4Large = 0x2e;
    uint64_t cycles = 4ull * std::max<uint8_t>(inst.info->passes, 1);
    if (inst.target != Target::kGfx950) {
        return cycles;
    }
    uint16_t opcode = inst.info->opcode;
    bool is_mixed = opcode == kF8f6f4 || opcode == kF8f6f4Large;
    bool has_8bit = is_mixed && (inst.cbsz <= 1 || inst.blgp <= 1);
    return opcode == kF64 || has_8bit ? 2 * cycles : cycles;
}

unsigned data_dwords(const Inst& inst) {
    return std::max({inst.dst[0].dwords, inst.src[1].dwords, uint8_t{1}});
}

}  // namespace

void WaveTimer::reset() {
    if (matrix_done_ != 0) {
        std::fill(std::begin(matrix_ready_), std::end(matrix_ready_), 0);
    }
    clock_ = matrix_free_ = matrix_done_ = vmem_free_ = lds_free_ = 0;
    use_ = UnitUse{};
    vm_.reset();
    lgkm_.reset();
}

uint64_t WaveTimer::meet(uint64_t clock) {
    uint64_t waited = clock - clock_;
    clock_ = clock;
    return waited;
}

uint64_t WaveTimer::matrix_result(const RegSpan& span) const {
    uint64_t ready = 0;
    if (span.file == RegSpan::kVector) {
        for (unsigned i = span.first; i < span.first + span.count; ++i) {
            ready = std::max(ready, matrix_ready_[i]);
        }
    }
    return ready;
}

void WaveTimer::wait_for_matrix(const Inst& inst) {
    for (unsigned i = 0; i < inst.read_count; ++i) {
        stall_until(matrix_result(inst.reads[i]));
    }
    for (unsigned i = 0; i < inst.write_count; ++i) {
        stall_until(matrix_result(inst.writes[i]));
    }
}

void WaveTimer::issue_mfma(const Inst& inst) {
    const Operand& dst = inst.dst[0];
    const Operand& c = (inst.info->flags & kDstIsRead) ? dst : inst.src[2];
    stall_until(matrix_free_);
    if (matrix_done_ > clock_) {
        // An accumulation chain (C is exactly the previous D) is forwarded inside the matrix core.
        bool is_chain = c.is_vgpr() && c.index == dst.index && c.dwords == dst.dwords;
        for (const Operand& operand : inst.src) {
            bool forwarded = is_chain && &operand == &c;
            if (operand.is_vgpr() && !forwarded) {
                stall_until(matrix_result({RegSpan::kVector, operand.index, operand.dwords}));
            }
        }
        if (!is_chain) {
            stall_until(matrix_result({RegSpan::kVector, dst.index, dst.dwords}));
        }
    }
    uint64_t cycles = matrix_cycles(inst);
    matrix_free_ = clock_ + cycles;
    uint64_t done = matrix_free_ + kMfmaExtraLatency;
    matrix_done_ = std::max(matrix_done_, done);
    for (unsigned i = dst.index; i < dst.index + dst.dwords && i < std::size(matrix_ready_); ++i) {
        matrix_ready_[i] = done;
    }
    use_.mfma += cycles;
    clock_ += kTurn;
}

void WaveTimer::issue_vmem(const Wave& wave, const Inst& inst) {
    bool is_flat = inst.wait_class == WaitClass::kFlat;
    stall_until(vm_.room());
    if (is_flat) {
        stall_until(lgkm_.room());
    }
    auto lanes = static_cast<uint64_t>(std::popcount(wave.exec()));
    uint64_t bytes = lanes * data_dwords(inst) * 4;
    // 16 addresses a cycle, and the data at the width of the vector L1.
    uint64_t busy = std::max<uint64_t>(kTurn, bytes / kVectorL1Bytes);
    vmem_free_ = std::max(vmem_free_, clock_) + busy;
    bool is_atomic = inst.info->category == Category::kVmemAtomic ||
                     inst.info->category == Category::kFlatAtomic;
    uint64_t latency = lanes == 0 ? kTurn : is_atomic ? kAtomicLatency : kGlobalLatency;
    uint64_t done = vmem_free_ + latency;
    if (inst.wait_class != WaitClass::kNone) {
        vm_.push(done);
    }
    if (is_flat) {
        lgkm_.push(done);
    }
    use_.vmem += busy;
    use_.bytes += bytes;
    clock_ += kTurn;
}

void WaveTimer::issue_lds(const Wave& wave, const Inst& inst) {
    stall_until(lgkm_.room());
    // A full wave takes 8 cycles for one dword a lane and 20 for four: addresses share the port [RPC].
    unsigned dwords = std::max<unsigned>(data_dwords(inst), inst.src[1].dwords + inst.src[2].dwords);
    uint64_t busy = wave.exec() == 0 ? kTurn : 4ull + 4ull * dwords;
    lds_free_ = std::max(lds_free_, clock_) + busy;
    lgkm_.push(lds_free_ + kLdsLatency - kTurn);
    use_.lds += busy;
    clock_ += kTurn;
}

void WaveTimer::wait(uint32_t simm) {
    stall_until(vm_.at_most((simm & 15) | (simm >> 14 & 3) << 4));
    stall_until(lgkm_.at_most(simm >> 8 & 15));
}

uint64_t WaveTimer::issue(const Wave& wave, const Inst& inst) {
    uint64_t before = clock_;
    Category category = inst.info->category;
    if (matrix_done_ > clock_ && category != Category::kMfma) {
        wait_for_matrix(inst);
    }
    uint64_t cost = kTurn;
    switch (category) {
        case Category::kValu:
            use_.valu += kTurn;
            clock_ += kTurn;
            break;
        case Category::kTrans:
            use_.valu += kTransCycles;
            cost = kTransCycles;
            clock_ += kTransCycles;
            break;
        case Category::kMfma:
            issue_mfma(inst);
            break;
        case Category::kVmemLoad: case Category::kVmemStore: case Category::kVmemAtomic:
        case Category::kVmemCache: case Category::kFlatLoad: case Category::kFlatStore:
        case Category::kFlatAtomic:
            issue_vmem(wave, inst);
            break;
        case Category::kLds: case Category::kLdsNoReturn:
            issue_lds(wave, inst);
            break;
        case Category::kSmem:
            stall_until(lgkm_.room());
            lgkm_.push(clock_ + kScalarLatency);
            use_.salu += kTurn;
            clock_ += kTurn;
            break;
        case Category::kMessage:
            stall_until(lgkm_.room());
            lgkm_.push(clock_ + kMessageLatency);
            clock_ += kTurn;
            break;
        case Category::kWait:
            wait(static_cast<uint32_t>(inst.simm));
            clock_ += kTurn;
            break;
        case Category::kNop:
            cost = nop_cycles(inst);
            clock_ += cost;
            break;
        case Category::kSalu: case Category::kBranch:
            use_.salu += kTurn;
            clock_ += kTurn;
            break;
        case Category::kBarrier: case Category::kEnd:
            clock_ += kTurn;
            break;
    }
    return clock_ - before - cost;
}

}  // namespace asmevo::emulator
