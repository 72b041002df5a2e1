#include "exec/checks/finding.h"

#include <algorithm>

#include "exec/dispatch.h"
#include "exec/fault_report.h"
#include "exec/listing.h"

namespace asmevo::emulator {

Finding* FindingLog::note(const FindingKey& key) {
    auto found = findings_.find(key);
    if (found != findings_.end()) {
        ++found->second.count;
        return nullptr;
    }
    if (findings_.size() >= kMost) {
        return nullptr;
    }
    Finding& finding = findings_[key];
    finding.key = key;
    return &finding;
}

void FindingLog::add(FindingLog&& other) {
    for (auto& [key, finding] : other.findings_) {
        auto [at, is_new] = findings_.try_emplace(key, std::move(finding));
        if (is_new) {
            continue;
        }
        // The first workgroup's is kept, so that a report does not depend on the number of threads.
        const uint64_t count = at->second.count + finding.count;
        if (finding.workgroup_index < at->second.workgroup_index) {
            at->second = std::move(finding);
        }
        at->second.count = count;
    }
}

std::vector<Finding> FindingLog::take() {
    std::vector<Finding> all;
    for (auto& [key, finding] : findings_) {
        all.push_back(std::move(finding));
    }
    findings_.clear();
    std::stable_sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) {
        return std::tuple(a.key.pc, a.key.other_pc) < std::tuple(b.key.pc, b.key.other_pc);
    });
    return all;
}

void Reporter::start(const Wave& wave, Finding& finding, FindingClass severity) const {
    const CodeSegment& code = *dispatch_.request->kernel->code;
    const Dim3 &grid = dispatch_.request->grid, &id = wave.group->id;
    finding.severity = severity;
    finding.workgroup = id;
    finding.workgroup_index = id.x + uint64_t{grid.x} * (id.y + uint64_t{grid.y} * id.z);
    finding.wave = wave.wave_id;
    finding.instruction = instruction_text(code, finding.key.pc);
    if (finding.key.other_pc != 0) {
        finding.other_instruction = instruction_text(code, finding.key.other_pc);
    }
}

void Reporter::finish(const Finding& finding) const {
    if (finding.severity == FindingClass::kError && dispatch_.options->on_finding == OnFinding::kEnd) {
        throw Fault(finding.message, finding.lane, nullptr);
    }
}

void Reporter::note(const Wave& wave, uint64_t pc, const Fault& fault) {
    if (!fault.rule) {
        return;  // a finding already
    }
    if (Finding* finding = log_.note({fault.rule, pc, 0})) {
        start(wave, *finding, FindingClass::kError);
        finding->message = fault.what();
        finding->lane = fault.lane;
    }
}

}  // namespace asmevo::emulator
