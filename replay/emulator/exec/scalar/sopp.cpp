// SOPP: program flow, waits, messages.
#include "exec/fault.h"
#include "exec/scalar/scalar_rows.h"
#include "exec/wait_tracking.h"

namespace asmevo::emulator {
namespace {

using u32 = uint32_t;

void nothing(Wave&, const Inst&) {}

void end_program(Wave& wave, const Inst&) { wave.state = WaveState::kDone; }
void barrier(Wave& wave, const Inst&) { wave.state = WaveState::kAtBarrier; }

void jump(Wave& wave, const Inst& inst) { wave.pc += 4 * static_cast<int64_t>(inst.simm); }

template <auto condition>
void branch(Wave& wave, const Inst& inst) {
    if (condition(wave)) {
        jump(wave, inst);
    }
}

void waitcnt(Wave& wave, const Inst& inst) {
    // vmcnt is split: bits 3:0 and 15:14; lgkmcnt is bits 11:8.
    u32 simm = static_cast<u32>(inst.simm);
    wait_counters(wave, (simm & 15) | (simm >> 14 & 3) << 4, simm >> 8 & 15);
}

// A wave that sleeps waits for something: the others get its time.
void sleep(Wave& wave, const Inst&) { wave.state = WaveState::kYielded; }

void trap(Wave&, const Inst& inst) {
    throw Fault("the program stopped itself with s_trap " +
                std::to_string(static_cast<u32>(inst.simm) & 0xff) + " (a failed assertion or llvm.trap)");
}

void set_halt(Wave&, const Inst& inst) {
    if (inst.simm & 1) {
        throw Fault("the program halted itself with s_sethalt");
    }
}

void set_kill(Wave&, const Inst& inst) {
    if (inst.simm & 1) {
        throw Fault("the program killed itself with s_setkill");
    }
}

void send_message_and_halt(Wave&, const Inst&) {
    throw Fault("the program halted itself with s_sendmsghalt");
}

void set_priority(Wave& wave, const Inst& inst) { wave.priority = inst.simm & 3; }

void gpr_idx_off(Wave& wave, const Inst&) { wave.gpr_idx_on = false; }
void gpr_idx_mode(Wave& wave, const Inst& inst) {
    wave.sgpr[kM0Code] = (wave.m0() & ~0xf000u) | (static_cast<u32>(inst.simm) & 0xf) << 12;
}

constexpr OpInfo row(const char* name, uint16_t opcode, Category category, Handler run,
                     u32 flags = kNoFlags) {
    return scalar_row(name, Encoding::kSopp, opcode, Type::kNone, Type::kNone, Type::kNone, flags, run,
                      category);
}
constexpr OpInfo branch_row(const char* name, uint16_t opcode, Handler run, u32 flags = kNoFlags) {
    return row(name, opcode, Category::kBranch, run, flags | kRelative);
}

const OpInfo kRows[] = {
    row("s_nop", 0, Category::kNop, nothing),
    row("s_endpgm", 1, Category::kEnd, end_program, kTerminator),
    branch_row("s_branch", 2, jump, kTerminator),
    row("s_wakeup", 3, Category::kNop, nothing),
    branch_row("s_cbranch_scc0", 4, branch<[](const Wave& w) { return !w.scc; }>, kReadsScc),
    branch_row("s_cbranch_scc1", 5, branch<[](const Wave& w) { return w.scc; }>, kReadsScc),
    branch_row("s_cbranch_vccz", 6, branch<[](const Wave& w) { return w.vcc() == 0; }>, kReadsVcc),
    branch_row("s_cbranch_vccnz", 7, branch<[](const Wave& w) { return w.vcc() != 0; }>, kReadsVcc),
    branch_row("s_cbranch_execz", 8, branch<[](const Wave& w) { return w.exec() == 0; }>, kReadsExec),
    branch_row("s_cbranch_execnz", 9, branch<[](const Wave& w) { return w.exec() != 0; }>, kReadsExec),
    row("s_barrier", 10, Category::kBarrier, barrier),
    row("s_setkill", 11, Category::kSalu, set_kill),
    row("s_waitcnt", 12, Category::kWait, waitcnt),
    row("s_sethalt", 13, Category::kSalu, set_halt),
    row("s_sleep", 14, Category::kNop, sleep),
    row("s_setprio", 15, Category::kSalu, set_priority),
    row("s_sendmsg", 16, Category::kMessage, nothing, kReadsM0),
    row("s_sendmsghalt", 17, Category::kMessage, send_message_and_halt, kReadsM0),
    row("s_trap", 18, Category::kSalu, trap),
    row("s_icache_inv", 19, Category::kSalu, nothing),
    row("s_incperflevel", 20, Category::kSalu, nothing),
    row("s_decperflevel", 21, Category::kSalu, nothing),
    row("s_ttracedata", 22, Category::kSalu, nothing, kReadsM0),
    // No debugger is attached: these never branch.
    branch_row("s_cbranch_cdbgsys", 23, nothing),
    branch_row("s_cbranch_cdbguser", 24, nothing),
    branch_row("s_cbranch_cdbgsys_or_user", 25, nothing),
    branch_row("s_cbranch_cdbgsys_and_user", 26, nothing),
    row("s_endpgm_saved", 27, Category::kEnd, end_program, kTerminator),
    row("s_set_gpr_idx_off", 28, Category::kSalu, gpr_idx_off, kWritesMode),
    row("s_set_gpr_idx_mode", 29, Category::kSalu, gpr_idx_mode, kReadsM0 | kWritesM0),
    row("s_endpgm_ordered_ps_done", 30, Category::kEnd, end_program, kTerminator),
};

}  // namespace

std::span<const OpInfo> sopp_ops() { return kRows; }

}  // namespace asmevo::emulator
