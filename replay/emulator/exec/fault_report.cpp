#include "exec/fault_report.h"

#include <cstdio>

#include "exec/listing.h"

namespace asmevo::emulator {
namespace {

constexpr size_t kContext = 3;  // instructions shown before and after

std::string hex(uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

std::string listing(const DispatchContext& dispatch, uint64_t pc) {
    const KernelImage& kernel = *dispatch.request->kernel;
    std::string text;
    for (const ListingLine& line : list_around(kernel, pc, kContext)) {
        text += "\n  " + std::string(line.address == pc ? "> " : "  ") + "+" +
                hex(line.address - kernel.entry) + "  " + line.text;
    }
    return text;
}

std::string place(const Dim3& id) {
    return "workgroup (" + std::to_string(id.x) + ", " + std::to_string(id.y) + ", " +
           std::to_string(id.z) + ")";
}

const char* state_name(WaveState state) {
    switch (state) {
        case WaveState::kRunning: return "running";
        case WaveState::kAtBarrier: return "at a barrier";
        case WaveState::kDone: return "ended";
    }
    return "";
}

}  // namespace

std::string place_text(const Wave& wave, uint64_t pc) {
    return "+" + hex(pc - wave.group->dispatch->request->kernel->entry);
}

std::string fault_report(const DispatchContext& dispatch, const Wave& wave, uint64_t pc,
                         const Fault& fault) {
    const KernelImage& kernel = *dispatch.request->kernel;
    std::string instruction = instruction_text(*kernel.code, pc);
    std::string text = "kernel " + kernel.name + ": " + fault.what() + "\n  at +" +
                       hex(pc - kernel.entry) + (instruction.empty() ? "" : ": " + instruction) + ", " +
                       place(wave.group->id) + ", wave " + std::to_string(wave.wave_id);
    if (fault.lane >= 0) {
        text += ", lane " + std::to_string(fault.lane);
    }
    return text + listing(dispatch, pc);
}

std::string watchdog_report(const DispatchContext& dispatch, const Workgroup& group) {
    const KernelImage& kernel = *dispatch.request->kernel;
    std::string text = "kernel " + kernel.name + ": did not end within " +
                       std::to_string(dispatch.max_wave_instructions) + " wave instructions; " +
                       place(group.id);
    for (const auto& wave : group.waves) {
        text += "\n  wave " + std::to_string(wave->wave_id) + " " + state_name(wave->state) + ", pc +" +
                hex(wave->pc - kernel.entry);
    }
    return text;
}

void fault_beyond_allocation(const Wave& wave, const Inst& inst) {
    bool is_acc = inst.acc_vgprs > wave.acc_vgpr_count;
    unsigned highest = (is_acc ? inst.acc_vgprs : inst.arch_vgprs) - 1u;
    unsigned count = is_acc ? wave.acc_vgpr_count : wave.arch_vgpr_count;
    throw Fault("uses " + std::string(is_acc ? "a" : "v") + std::to_string(highest) +
                ", but the kernel's waves have only " + std::to_string(count) +
                (is_acc ? " accumulation" : "") + " vector registers");
}

}  // namespace asmevo::emulator
