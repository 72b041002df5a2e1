// Lazily decoded code of a loaded object.
#include <cstdio>
#include <set>
#include <string_view>
#include <vector>

#include "exec/dispatch.h"
#include "exec/fault.h"

namespace asmevo::emulator {
namespace {

bool is_global_atomic(const Inst& inst) {
    Category category = inst.info->category;
    bool is_scalar = category == Category::kSmem && (inst.info->flags & kReturnsWithGlc);
    return category == Category::kVmemAtomic || category == Category::kFlatAtomic || is_scalar;
}

bool is_indirect_jump(const Inst& inst) {
    std::string_view name = inst.info->name;
    return name.starts_with("s_setpc") || name.starts_with("s_swappc") || name.starts_with("s_call") ||
           name.starts_with("s_rfe") || name.starts_with("s_cbranch_g_fork") ||
           name.starts_with("s_cbranch_i_fork") || name.starts_with("s_cbranch_join");
}

}  // namespace

CodeSegment::CodeSegment(Target target, uint64_t address, uint64_t size_bytes)
    : target_(target),
      address_(address),
      size_(size_bytes & ~uint64_t{3}),
      slots_(new std::atomic<const Inst*>[size_ / 4 + 1]()) {}

CodeSegment::~CodeSegment() {
    for (uint64_t i = 0; i < size_ / 4; ++i) {
        delete slots_[i].load(std::memory_order_relaxed);
    }
}

const Inst& CodeSegment::decode_at(uint64_t pc) {
    uint64_t offset = pc - address_;
    if (offset >= size_ || (offset & 3)) {
        char text[96];
        std::snprintf(text, sizeof text, "illegal pc 0x%llx: %s", static_cast<unsigned long long>(pc),
                      offset & 3 ? "not a multiple of 4" : "outside the code object's text");
        throw Fault(text);
    }
    auto inst = std::make_unique<Inst>();
    std::string error;
    const auto* words = reinterpret_cast<const uint32_t*>(pc);
    if (!decode(target_, words, (size_ - offset) / 4, *inst, error)) {
        char text[160];
        std::snprintf(text, sizeof text, "illegal instruction 0x%08x: %s", words[0], error.c_str());
        throw Fault(text);
    }
    std::lock_guard lock(mutex_);
    auto& slot = slots_[offset >> 2];
    const Inst* known = slot.load(std::memory_order_relaxed);
    if (!known) {
        known = inst.release();
        slot.store(known, std::memory_order_release);
    }
    return *known;
}

bool CodeSegment::has_global_atomics(uint64_t entry) {
    {
        std::lock_guard lock(mutex_);
        auto known = atomics_.find(entry);
        if (known != atomics_.end()) {
            return known->second;
        }
    }
    bool found = false;
    std::set<uint64_t> seen;
    std::vector<uint64_t> work{entry};
    while (!work.empty() && !found) {
        uint64_t pc = work.back();
        work.pop_back();
        // A path that does not decode faults when it is executed; it has no atomics.
        try {
            while (!found && seen.insert(pc).second) {
                const Inst& inst = at(pc);
                found = is_global_atomic(inst) || is_indirect_jump(inst);
                pc += 4ull * inst.size_dwords;
                if (inst.info->flags & kRelative) {
                    work.push_back(pc + 4 * static_cast<int64_t>(inst.simm));
                }
                if ((inst.info->flags & kTerminator) || inst.info->category == Category::kEnd) {
                    break;
                }
            }
        } catch (const Fault&) {
        }
    }
    std::lock_guard lock(mutex_);
    atomics_[entry] = found;
    return found;
}

}  // namespace asmevo::emulator
