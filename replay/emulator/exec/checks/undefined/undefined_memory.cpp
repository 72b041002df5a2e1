#include "exec/checks/undefined/undefined_memory.h"

#include <cinttypes>
#include <cstdio>

#include "exec/dispatch.h"
#include "exec/fault_report.h"
#include "exec/listing.h"

namespace asmevo::emulator {

void UndefinedMemory::store(uint64_t dword, uint8_t written, const Store& by) {
    if (by.bytes == 0 && !has_stores()) {
        return;
    }
    std::lock_guard lock(mutex_);
    auto known = stores_.find(dword);
    const auto kept = static_cast<uint8_t>(known == stores_.end() ? 0 : known->second.bytes & ~written);
    if ((kept | by.bytes) == 0) {
        stores_.erase(dword);
    } else if (known != stores_.end() || stores_.size() < kMost) {
        Store& store = stores_[dword];
        store = by.bytes ? by : store;
        store.bytes = kept | by.bytes;
    }
    count_.store(stores_.size(), std::memory_order_relaxed);
}

uint8_t UndefinedMemory::stored_bytes(uint64_t dword) const {
    std::lock_guard lock(mutex_);
    auto known = stores_.find(dword);
    return known == stores_.end() ? uint8_t{0} : known->second.bytes;
}

std::string UndefinedMemory::report(const DispatchContext& dispatch, FindingLog& log) const {
    const Dim3& grid = dispatch.request->grid;
    const CodeSegment& code = *dispatch.request->kernel->code;
    // By the first place of each instruction, so that the order of the table does not show.
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> first;  // pc: dword, count
    for (const auto& [dword, store] : stores_) {
        auto [at, is_new] = first.try_emplace(store.pc, dword, 0);
        at->second.first = std::min(at->second.first, dword);
        ++at->second.second;
    }
    std::string failure;
    for (const auto& [pc, found] : first) {
        Finding* finding = log.note({"undefined-store", pc, 0});
        if (!finding) {
            continue;
        }
        const Store& store = stores_.at(found.first);
        char address[24];
        std::snprintf(address, sizeof address, "0x%" PRIx64, 4 * found.first);
        finding->where = address;
        finding->count = found.second;
        finding->instruction = instruction_text(code, pc);
        finding->workgroup = store.workgroup;
        finding->workgroup_index =
            store.workgroup.x + uint64_t{grid.x} * (store.workgroup.y + uint64_t{grid.y} * store.workgroup.z);
        finding->wave = store.wave;
        finding->lane = store.lane;
        finding->message = "stores undefined data that stays in memory at " + finding->where;
        if (failure.empty() && dispatch.options->on_finding == OnFinding::kEnd) {
            failure = finding_report(dispatch, *finding);
        }
    }
    return failure;
}

}  // namespace asmevo::emulator
