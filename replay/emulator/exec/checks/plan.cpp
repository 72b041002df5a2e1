#include "exec/checks/plan.h"

namespace asmevo::emulator {

const Plan& PlanTable::add(const Inst& inst, uint64_t slot) {
    Page* page = find_page(slot >> kPageBits);
    if (!page) {
        pages_.push_back(std::make_unique<Page>());
        page = last_ = pages_.back().get();
        page->number = slot >> kPageBits;
    }
    auto& plan = page->plans[slot & (kPageSize - 1)];
    plan = std::make_unique<Plan>(inst);
    return *plan;
}

}  // namespace asmevo::emulator
