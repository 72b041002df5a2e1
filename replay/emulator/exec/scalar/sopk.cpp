// SOPK: scalar operations with a 16-bit immediate, hardware registers, calls.
#include "exec/dispatch.h"
#include "exec/scalar/scalar_rows.h"

namespace asmevo::emulator {
namespace {

using u32 = uint32_t;
using i32 = int32_t;

enum HardwareRegister : u32 {
    kMode = 1, kStatus = 2, kTrapStatus = 3, kGprAlloc = 5, kLdsAlloc = 6, kShMemBases = 15, kXccId = 20,
};
constexpr u32 kModeGprIdx = 1u << 27;
constexpr u32 kXcds = 8;  // MI300X; workgroups go to the dies in turn

template <auto f>
void compare_signed(Wave& wave, const Inst& inst) {
    wave.scc = f(static_cast<i32>(read_scalar32(wave, inst.src[0])), inst.simm);
}

template <auto f>
void compare_unsigned(Wave& wave, const Inst& inst) {
    wave.scc = f(read_scalar32(wave, inst.src[0]), static_cast<u32>(inst.simm) & 0xffff);
}

void movk(Wave& wave, const Inst& inst) {
    write_scalar32(wave, inst.dst[0], static_cast<u32>(inst.simm));
}

void cmovk(Wave& wave, const Inst& inst) {
    if (wave.scc) {
        movk(wave, inst);
    }
}

void addk(Wave& wave, const Inst& inst) {
    u32 a = read_scalar32(wave, inst.dst[0]), b = static_cast<u32>(inst.simm), sum = a + b;
    wave.scc = ((a ^ sum) & (b ^ sum)) >> 31;
    write_scalar32(wave, inst.dst[0], sum);
}

void mulk(Wave& wave, const Inst& inst) {
    u32 product = read_scalar32(wave, inst.dst[0]) * static_cast<u32>(inst.simm);
    write_scalar32(wave, inst.dst[0], product);
}

struct HwregField {
    u32 id, offset, mask;
    explicit HwregField(i32 simm)
        : id(simm & 63), offset(simm >> 6 & 31), mask(static_cast<u32>(2ull << (simm >> 11 & 31)) - 1) {}
};

/// SCC, WAVE_PRIO, EXECZ, VCCZ, IN_TG and VALID (CDNA3 ISA 3.3, STATUS).
u32 status(const Wave& wave) {
    return static_cast<u32>(wave.scc) | wave.priority << 3 | static_cast<u32>(wave.exec() == 0) << 9 |
           static_cast<u32>(wave.vcc() == 0) << 10 |
           static_cast<u32>(wave.group->waves.size() > 1) << 11 | 1u << 16;
}

u32 xcc_id(const Wave& wave) {
    const Dim3& id = wave.group->id;
    const Dim3& grid = wave.group->dispatch->request->grid;
    return static_cast<u32>((id.x + uint64_t{grid.x} * (id.y + uint64_t{grid.y} * id.z)) % kXcds);
}

/// Registers that describe where a wave runs read as zero: every place is alike here.
u32 read_hardware_register(const Wave& wave, u32 id) {
    switch (id) {
        case kMode: return wave.mode | (wave.gpr_idx_on ? kModeGprIdx : 0);
        case kStatus: return status(wave);
        case kTrapStatus: return wave.trap_status;
        case kGprAlloc: return (wave.arch_vgpr_count + wave.acc_vgpr_count) / 8 - 1;
        case kLdsAlloc: return static_cast<u32>((wave.group->lds.size() + 511) / 512) << 12;
        case kShMemBases:
            return static_cast<u32>(kSharedApertureBase >> 48) << 16 |
                   static_cast<u32>(kPrivateApertureBase >> 48);
        case kXccId: return xcc_id(wave);
        default: return 0;
    }
}

void getreg(Wave& wave, const Inst& inst) {
    HwregField field(inst.simm);
    write_scalar32(wave, inst.dst[0],
                   read_hardware_register(wave, field.id) >> field.offset & field.mask);
}

/// Only MODE and TRAPSTS can be written by a program without privileges.
void write_field(Wave& wave, const HwregField& field, u32 value) {
    u32 mask = field.mask << field.offset;
    auto merge = [&](u32 old) { return (old & ~mask) | (value << field.offset & mask); };
    if (field.id == kMode) {
        u32 mode = merge(read_hardware_register(wave, kMode));
        wave.gpr_idx_on = mode & kModeGprIdx;
        wave.mode = mode & ~kModeGprIdx;
    } else if (field.id == kTrapStatus) {
        wave.trap_status = merge(wave.trap_status);
    }
}

void setreg(Wave& wave, const Inst& inst) {
    write_field(wave, HwregField(inst.simm), read_scalar32(wave, inst.src[0]));
}

void setreg_imm(Wave& wave, const Inst& inst) {
    write_field(wave, HwregField(inst.simm), inst.literal);
}

void fork_near(Wave& wave, const Inst& inst) {
    fork_lanes(wave, read_scalar64(wave, inst.src[0]), wave.pc + 4 * static_cast<uint64_t>(static_cast<int64_t>(inst.simm)));
}

void call(Wave& wave, const Inst& inst) {
    write_scalar64(wave, inst.dst[0], wave.pc);
    wave.pc += 4 * static_cast<int64_t>(inst.simm);
}

constexpr OpInfo compare_row(const char* name, uint16_t opcode, Handler run) {
    return scalar_row(name, Encoding::kSopk, opcode, Type::kNone, Type::kB32, Type::kNone, kWritesScc,
                      run);
}
constexpr OpInfo move_row(const char* name, uint16_t opcode, u32 flags, Handler run) {
    return scalar_row(name, Encoding::kSopk, opcode, Type::kB32, Type::kNone, Type::kNone, flags, run);
}

const OpInfo kRows[] = {
    move_row("s_movk_i32", 0, kNoFlags, movk),
    move_row("s_cmovk_i32", 1, kReadsScc | kDstIsRead, cmovk),
    compare_row("s_cmpk_eq_i32", 2, compare_signed<[](i32 a, i32 b) { return a == b; }>),
    compare_row("s_cmpk_lg_i32", 3, compare_signed<[](i32 a, i32 b) { return a != b; }>),
    compare_row("s_cmpk_gt_i32", 4, compare_signed<[](i32 a, i32 b) { return (a > b); }>),
    compare_row("s_cmpk_ge_i32", 5, compare_signed<[](i32 a, i32 b) { return (a >= b); }>),
    compare_row("s_cmpk_lt_i32", 6, compare_signed<[](i32 a, i32 b) { return a < b; }>),
    compare_row("s_cmpk_le_i32", 7, compare_signed<[](i32 a, i32 b) { return a <= b; }>),
    compare_row("s_cmpk_eq_u32", 8, compare_unsigned<[](u32 a, u32 b) { return a == b; }>),
    compare_row("s_cmpk_lg_u32", 9, compare_unsigned<[](u32 a, u32 b) { return a != b; }>),
    compare_row("s_cmpk_gt_u32", 10, compare_unsigned<[](u32 a, u32 b) { return (a > b); }>),
    compare_row("s_cmpk_ge_u32", 11, compare_unsigned<[](u32 a, u32 b) { return (a >= b); }>),
    compare_row("s_cmpk_lt_u32", 12, compare_unsigned<[](u32 a, u32 b) { return a < b; }>),
    compare_row("s_cmpk_le_u32", 13, compare_unsigned<[](u32 a, u32 b) { return a <= b; }>),
    move_row("s_addk_i32", 14, kWritesScc | kDstIsRead, addk),
    move_row("s_mulk_i32", 15, kDstIsRead, mulk),
    scalar_row("s_cbranch_i_fork", Encoding::kSopk, 16, Type::kNone, Type::kB64, Type::kNone,
               kRelative | kReadsMode | kWritesMode | kReadsExec | kWritesExec, fork_near, Category::kBranch),
    move_row("s_getreg_b32", 17, kReadsMode, getreg),
    scalar_row("s_setreg_b32", Encoding::kSopk, 18, Type::kNone, Type::kB32, Type::kNone, kWritesMode,
               setreg),
    scalar_row("s_setreg_imm32_b32", Encoding::kSopk, 20, Type::kNone, Type::kNone, Type::kNone,
               kWritesMode | kLiteralK, setreg_imm),
    scalar_row("s_call_b64", Encoding::kSopk, 21, Type::kB64, Type::kNone, Type::kNone,
               kRelative | kTerminator, call, Category::kBranch),
};

}  // namespace

std::span<const OpInfo> sopk_ops() { return kRows; }

}  // namespace asmevo::emulator
