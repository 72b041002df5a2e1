// What the checks know of each instruction of a kernel, worked out at its first execution.
#pragma once

#include <memory>
#include <vector>

#include "exec/checks/accesses.h"
#include "exec/checks/hazard_traits.h"
#include "exec/checks/register_set.h"
#include "exec/checks/undefined/flow.h"

namespace asmevo::emulator {

struct Plan {
    explicit Plan(const Inst& inst);

    RegisterSet touched;     // read or written
    bool may_touch_lds = false;
    bool is_memory = false;  // vector or scalar, with an address
    HazardTraits hazard;
    AccessShape access;
    FlowPlan flow;
};

/// Plans by pc. One per workgroup in flight; kept from one workgroup to the next.
class PlanTable {
  public:
    const Plan& at(const Inst& inst, uint64_t pc) {
        const uint64_t slot = pc >> 2;
        if (Page* page = find_page(slot >> kPageBits)) {
            if (const Plan* plan = page->plans[slot & (kPageSize - 1)].get()) {
                return *plan;
            }
        }
        return add(inst, slot);
    }

  private:
    static constexpr unsigned kPageBits = 10;
    static constexpr uint64_t kPageSize = uint64_t{1} << kPageBits;
    struct Page {
        uint64_t number;
        std::unique_ptr<Plan> plans[kPageSize];
    };

    Page* find_page(uint64_t number) {
        if (last_ && last_->number == number) {
            return last_;
        }
        for (const auto& page : pages_) {
            if (page->number == number) {
                return last_ = page.get();
            }
        }
        return nullptr;
    }
    const Plan& add(const Inst& inst, uint64_t slot);

    std::vector<std::unique_ptr<Page>> pages_;
    Page* last_ = nullptr;
};

}  // namespace asmevo::emulator
