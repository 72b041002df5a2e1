// State of a running wavefront, its workgroup and its dispatch.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "isa/inst.h"
#include "memory/address_space.h"

namespace asmevo::emulator {

constexpr int kLanes = 64;
constexpr uint16_t kVccCode = 106, kM0Code = 124, kExecCode = 126, kFlatScratchCode = 102;
constexpr uint16_t kAgprBase = 256;

struct alignas(64) LaneArray {
    uint32_t lane[kLanes];
};

struct Dim3 {
    uint32_t x = 1, y = 1, z = 1;
};

struct Workgroup;
struct DispatchContext;

enum class WaveState : uint8_t {
    kRunning,
    kYielded,     // sleeps or spins: goes on when its workgroup gets the next turn
    kAwaitsTurn,  // before an instruction that must keep the order of workgroups
    kAtBarrier,
    kDone,
};

/// A memory operation whose result registers may not be read yet.
struct PendingOp {
    const Inst* inst;
    uint64_t pc;
    bool counts_vm, counts_lgkm, in_order;  // in_order: returns in issue order within its counter
    RegSpan spans[2];
    uint8_t span_count;
};

/// One wavefront of 64 lanes. Owned by its Workgroup, run by one host thread at a time.
struct Wave {
    uint32_t sgpr[128] = {};      // by ISA code: VCC, M0, EXEC, TTMP stand at their codes
    bool scc = false;
    uint32_t mode = 0;            // MODE register: bits 0-3 round, 4-7 denorm, 8 dx10_clamp, 9 ieee, 23 fp16_ovfl
    uint32_t trap_status = 0;
    uint32_t priority = 0;        // s_setprio: seen in STATUS only, turns do not depend on it
    uint64_t pc = 0;              // address of the next instruction; handlers of branches set it
    WaveState state = WaveState::kRunning;
    uint32_t wave_id = 0;         // within the workgroup
    std::vector<LaneArray> vgpr;  // index as Operand::index; a0 at kAgprBase
    uint32_t arch_vgpr_count = 0, acc_vgpr_count = 0;  // allocated: an index beyond is a Fault
    std::vector<PendingOp> pending;                    // in issue order
    bool has_pending_results = false;                  // any bit of the next two is set
    uint64_t pending_sgpr[2] = {};                     // bit per scalar code being loaded
    uint64_t pending_vgpr[8] = {};                     // bit per VGPR (512) being loaded
    uint64_t instructions = 0;
    uint64_t scratch_base = 0;    // this wave's private memory: kLanes * scratch_stride bytes, lane-major
    uint32_t scratch_stride = 0;  // bytes a lane
    bool has_matrix_scale = false;  // v_mfma_ld_scale_b32 ran, its f8f6f4 operation has not (gfx950)
    uint8_t matrix_scale[2][kLanes];
    MemoryView memory;
    Workgroup* group = nullptr;
    // VGPR indexing (s_set_gpr_idx_*): mode bits in M0[15:12] copies, off unless gpr_idx_on.
    bool gpr_idx_on = false;

    uint64_t exec() const { return read64(kExecCode); }
    void set_exec(uint64_t value) { write64(kExecCode, value); }
    uint64_t vcc() const { return read64(kVccCode); }
    uint32_t m0() const { return sgpr[kM0Code]; }

    uint64_t read64(uint16_t code) const {
        uint64_t value;
        std::memcpy(&value, &sgpr[code], 8);
        return value;
    }
    void write64(uint16_t code, uint64_t value) { std::memcpy(&sgpr[code], &value, 8); }

    uint32_t* lanes(uint16_t vgpr_index) { return vgpr[vgpr_index].lane; }
    const uint32_t* lanes(uint16_t vgpr_index) const { return vgpr[vgpr_index].lane; }
};

struct Workgroup {
    Dim3 id;
    std::vector<uint8_t> lds;     // exactly the allocated bytes: an access beyond is a Fault
    std::vector<std::unique_ptr<Wave>> waves;
    DispatchContext* dispatch = nullptr;
};

/// Scalar operand value at run time (any kind but kVgpr). Implemented in exec/scalar_operand.cpp.
uint32_t read_scalar32(const Wave& wave, const Operand& operand);
uint64_t read_scalar64(const Wave& wave, const Operand& operand);
void write_scalar32(Wave& wave, const Operand& operand, uint32_t value);
void write_scalar64(Wave& wave, const Operand& operand, uint64_t value);

/// Apertures seen by FLAT addressing and by src_shared_base/src_private_base.
constexpr uint64_t kSharedApertureBase = 0x0001000000000000ull;
constexpr uint64_t kPrivateApertureBase = 0x0002000000000000ull;
constexpr uint64_t kApertureSize = 0x100000000ull;

}  // namespace asmevo::emulator
