// Lazily decoded code of a loaded object.
#include <cstdio>

#include "exec/fault.h"
#include "exec/ordering.h"
#include "exec/timing.h"

namespace asmevo::emulator {
namespace {

/// A vector or scalar ALU operation after which nothing but the next instruction can come, and which waits for nothing.
bool is_simple(const Inst& inst) {
    Category category = inst.info->category;
    bool is_alu = category == Category::kValu || category == Category::kTrans || category == Category::kSalu;
    return is_alu && inst.run && !(inst.info->flags & (kRelative | kTerminator | kWritesMode)) &&
           inst.ordering == Ordering::kFree && inst.wait_class == WaitClass::kNone && inst.lds_shape.pieces == 0 &&
           !jumps_indirectly(inst);
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
    inst->ordering = ordering_of(*inst);
    inst->is_vector = inst->info->category != Category::kSalu;
    if (is_simple(*inst)) {
        inst->simple_cycles = inst->info->category == Category::kTrans ? kTransCycles : kTurn;
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

bool CodeSegment::decodes_at(uint64_t pc) {
    try {
        at(pc);
        return true;
    } catch (const Fault&) {
        return false;
    }
}

}  // namespace asmevo::emulator
