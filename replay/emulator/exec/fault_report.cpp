#include "exec/fault_report.h"

#include <cstdio>
#include <vector>

#include "isa/format.h"

namespace asmevo::emulator {
namespace {

constexpr int kContext = 3;  // instructions shown before and after

std::string hex(uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

/// Text and size at `pc`; size 0 when nothing decodes there.
std::string text_at(const CodeSegment& code, uint64_t pc, unsigned& size_dwords) {
    size_dwords = 0;
    uint64_t offset = pc - code.address();
    if (offset >= code.size() || (offset & 3)) {
        return "";
    }
    Inst inst;
    std::string error;
    if (!decode(code.target(), reinterpret_cast<const uint32_t*>(pc), (code.size() - offset) / 4, inst,
                error)) {
        return "(" + error + ")";
    }
    size_dwords = inst.size_dwords;
    return format(inst);
}

/// Addresses of up to kContext instructions before `pc`: instructions differ in size, so the walk starts at the
/// kernel's entry.
std::vector<uint64_t> addresses_before(const DispatchContext& dispatch, uint64_t pc) {
    const KernelImage& kernel = *dispatch.request->kernel;
    std::vector<uint64_t> found;
    for (uint64_t at = dispatch.entry; at < pc;) {
        unsigned size = 0;
        text_at(*kernel.code, at, size);
        if (size == 0) {
            return {};
        }
        found.push_back(at);
        at += 4ull * size;
    }
    if (found.size() > kContext) {
        found.erase(found.begin(), found.end() - kContext);
    }
    return found;
}

std::string listing(const DispatchContext& dispatch, uint64_t pc) {
    const KernelImage& kernel = *dispatch.request->kernel;
    std::string text;
    auto add = [&](uint64_t at, const std::string& line) {
        text += "\n  " + std::string(at == pc ? "> " : "  ") + "+" + hex(at - kernel.entry) + "  " + line;
    };
    unsigned size = 0;
    for (uint64_t at : addresses_before(dispatch, pc)) {
        add(at, text_at(*kernel.code, at, size));
    }
    uint64_t at = pc;
    for (int i = 0; i <= kContext; ++i) {
        std::string line = text_at(*kernel.code, at, size);
        if (line.empty()) {
            break;
        }
        add(at, line);
        if (size == 0) {
            break;
        }
        at += 4ull * size;
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

std::string instruction_text(const CodeSegment& code, uint64_t pc) {
    unsigned size = 0;
    return text_at(code, pc, size);
}

std::string place_text(const Wave& wave, uint64_t pc) {
    return "+" + hex(pc - wave.group->dispatch->request->kernel->entry);
}

std::string fault_report(const DispatchContext& dispatch, const Wave& wave, uint64_t pc,
                         const Fault& fault) {
    const KernelImage& kernel = *dispatch.request->kernel;
    unsigned size = 0;
    std::string instruction = text_at(*kernel.code, pc, size);
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
