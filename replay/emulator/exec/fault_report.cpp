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

/// The instructions of a loop, cut in the middle where it is long.
std::string loop_listing(const DispatchContext& dispatch, uint64_t first, uint64_t last) {
    const KernelImage& kernel = *dispatch.request->kernel;
    std::vector<std::string> lines;
    for (uint64_t at = first; at <= last && kernel.code->decodes_at(at); at += 4ull * kernel.code->at(at).size_dwords) {
        lines.push_back("\n    +" + hex(at - kernel.entry) + "  " + instruction_text(*kernel.code, at));
    }
    constexpr size_t kMost = 12;
    if (lines.size() > kMost) {
        lines.erase(lines.begin() + kMost / 2, lines.end() - kMost / 2);
        lines.insert(lines.begin() + kMost / 2, "\n    ...");
    }
    std::string text;
    for (const std::string& line : lines) {
        text += line;
    }
    return text;
}

std::string place(const Dim3& id) {
    return "workgroup (" + std::to_string(id.x) + ", " + std::to_string(id.y) + ", " +
           std::to_string(id.z) + ")";
}

std::string report_at(const DispatchContext& dispatch, uint64_t pc, const std::string& what, const Dim3& group,
                      uint32_t wave, int lane) {
    const KernelImage& kernel = *dispatch.request->kernel;
    const std::string instruction = instruction_text(*kernel.code, pc);
    std::string text = "kernel " + kernel.name + ": " + what + "\n  at +" + hex(pc - kernel.entry) +
                       (instruction.empty() ? "" : ": " + instruction) + ", " + place(group) + ", wave " +
                       std::to_string(wave);
    if (lane >= 0) {
        text += ", lane " + std::to_string(lane);
    }
    return text + listing(dispatch, pc);
}

const char* state_name(WaveState state) {
    switch (state) {
        case WaveState::kRunning: case WaveState::kYielded: return "running";
        case WaveState::kAwaitsTurn: return "waiting for its workgroup's turn";
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
    return report_at(dispatch, pc, fault.what(), wave.group->id, wave.wave_id, fault.lane);
}

std::string finding_report(const DispatchContext& dispatch, const Finding& finding) {
    return report_at(dispatch, finding.key.pc, finding.message, finding.workgroup, finding.wave, finding.lane);
}

std::string endless_report(const DispatchContext& dispatch, const Workgroup& group,
                           const std::vector<SpinWatch>& spins, const std::string& why) {
    const KernelImage& kernel = *dispatch.request->kernel;
    std::string text = "kernel " + kernel.name + ": " + why + "; " + place(group.id);
    const SpinWatch* shown = nullptr;
    for (size_t i = 0; i < spins.size(); ++i) {
        const Wave& wave = *group.waves[i];
        text += "\n  wave " + std::to_string(i) + " " + state_name(wave.state) + ", pc +" + hex(wave.pc - kernel.entry);
        bool is_live = wave.state == WaveState::kRunning || wave.state == WaveState::kYielded;
        if (is_live && spins[i].is_looping()) {
            text += ", loops between +" + hex(spins[i].first() - kernel.entry) + " and +" +
                    hex(spins[i].last() - kernel.entry);
            shown = shown ? shown : &spins[i];
        }
    }
    return shown ? text + loop_listing(dispatch, shown->first(), shown->last()) : text;
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
