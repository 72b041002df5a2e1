#include "exec/checks/plan.h"

#include <algorithm>

namespace asmevo::emulator {

Plan::Plan(const Inst& inst) : hazard(hazard_traits(inst)), access(access_shape(inst)), flow(flow_plan(inst)) {
    using Kind = AccessShape::Kind;
    std::for_each_n(inst.reads, inst.read_count, [this](const RegSpan& span) { touched.add(span); });
    std::for_each_n(inst.writes, inst.write_count, [this](const RegSpan& span) { touched.add(span); });
    may_touch_lds = access.kind == Kind::kLds || access.kind == Kind::kAddtid || access.kind == Kind::kFlat ||
                    access.loads_to_lds;
    is_memory = access.kind != Kind::kNone || inst.info->encoding == Encoding::kSmem;
}

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
