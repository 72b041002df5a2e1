#include "exec/ordering.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "exec/fault.h"

namespace asmevo::emulator {
namespace {

/// Integer read-modify-write operations whose result does not depend on the order of several.
bool commutes(std::string_view name) {
    constexpr std::string_view kCommuting[] = {
        "atomic_add",  "atomic_sub", "atomic_smin", "atomic_umin", "atomic_smax",
        "atomic_umax", "atomic_and", "atomic_or",   "atomic_xor",
    };
    name.remove_prefix(std::min(name.find("atomic_"), name.size()));
    if (name.ends_with("_x2")) {
        name.remove_suffix(3);
    }
    return std::find(std::begin(kCommuting), std::end(kCommuting), name) != std::end(kCommuting);
}

Ordering order_of_atomic(const Inst& inst) {
    if (inst.glc) {
        return Ordering::kSynchronises;
    }
    return commutes(inst.info->name) ? Ordering::kStore : Ordering::kRounds;
}

/// gfx940: sc1 is device scope or wider, sc0 alone the workgroup. gfx90a: glc bypasses the cache.
bool bypasses_cache(const Inst& inst) { return inst.target == Target::kGfx90a ? inst.glc : inst.slc; }

Ordering order_of_scalar(const Inst& inst) {
    std::string_view name = inst.info->name;
    bool is_atomic = (inst.info->flags & kReturnsWithGlc) != 0;
    if (is_atomic || inst.glc || name.starts_with("s_dcache_inv")) {
        return Ordering::kSynchronises;
    }
    return name.find("store") != std::string_view::npos ? Ordering::kStore : Ordering::kFree;
}

}  // namespace

bool jumps_indirectly(const Inst& inst) {
    std::string_view name = inst.info->name;
    return name.starts_with("s_setpc") || name.starts_with("s_swappc") || name.starts_with("s_call") ||
           name.starts_with("s_rfe") || name.starts_with("s_cbranch_g_fork") ||
           name.starts_with("s_cbranch_i_fork") || name.starts_with("s_cbranch_join");
}

Ordering ordering_of(const Inst& inst) {
    std::string_view name = inst.info->name;
    switch (inst.info->category) {
        case Category::kVmemAtomic: case Category::kFlatAtomic:
            return order_of_atomic(inst);
        case Category::kVmemLoad: case Category::kFlatLoad:
            return bypasses_cache(inst) ? Ordering::kSynchronises : Ordering::kFree;
        case Category::kVmemStore: case Category::kFlatStore:
            return Ordering::kStore;
        case Category::kVmemCache:
            return name.find("inv") != std::string_view::npos && (inst.target == Target::kGfx90a || inst.slc)
                       ? Ordering::kSynchronises
                       : Ordering::kFree;
        case Category::kSmem:
            return order_of_scalar(inst);
        default:
            return Ordering::kFree;
    }
}

Ordering CodeSegment::highest_ordering(uint64_t entry) {
    {
        std::lock_guard lock(mutex_);
        auto known = orderings_.find(entry);
        if (known != orderings_.end()) {
            return known->second;
        }
    }
    Ordering highest = Ordering::kFree;
    std::set<uint64_t> seen;
    std::vector<uint64_t> work{entry};
    while (!work.empty() && highest != Ordering::kSynchronises) {
        uint64_t pc = work.back();
        work.pop_back();
        // A path that does not decode faults when it is executed.
        try {
            while (seen.insert(pc).second) {
                const Inst& inst = at(pc);
                highest = std::max(highest, jumps_indirectly(inst) ? Ordering::kSynchronises : inst.ordering);
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
    return orderings_[entry] = highest;
}

}  // namespace asmevo::emulator
