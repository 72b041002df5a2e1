// What the run-time checks found in a dispatch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "exec/checks/check_set.h"
#include "exec/fault.h"
#include "exec/wave.h"

namespace asmevo::emulator {

/// An error breaks a rule of the hardware; a caution one that only compilers keep, or that this program may not need.
enum class FindingClass : uint8_t { kError, kCaution };

/// Findings are told apart by these; everything else is of the first occurrence.
struct FindingKey {
    const char* rule = "";  // a literal
    uint64_t pc = 0;        // the instruction at which the rule is broken
    uint64_t other_pc = 0;  // the one that it conflicts with; 0: none

    bool operator<(const FindingKey& other) const {
        return std::tuple(std::string_view(rule), pc, other_pc) <
               std::tuple(std::string_view(other.rule), other.pc, other.other_pc);
    }
};

struct Finding {
    FindingKey key;
    FindingClass severity = FindingClass::kError;
    std::string message;                          // one sentence
    std::string where;                            // register, LDS bytes or address; may be empty
    std::string instruction, other_instruction;   // assembly text
    Dim3 workgroup;
    uint64_t workgroup_index = 0;
    uint32_t wave = 0;
    int lane = -1, other_wave = -1;               // -1: does not apply
    uint64_t count = 1;
};

/// The findings of one host thread, and in the end those of the dispatch. Bounded; not thread-safe.
class FindingLog {
  public:
    /// Counts an occurrence. The new finding where it is the first and there is room for it, otherwise null.
    Finding* note(const FindingKey& key);
    void add(FindingLog&& other);
    /// By address.
    std::vector<Finding> take();

  private:
    static constexpr size_t kMost = 1000;
    std::map<FindingKey, Finding> findings_;
};

/// How the checks of a workgroup tell what they find.
class Reporter {
  public:
    Reporter(const DispatchContext& dispatch, FindingLog& log) : dispatch_(dispatch), log_(log) {}

    /// `describe` fills the finding's message, where, lane and other wave; it is called for the first occurrence only.
    /// Throws Fault when errors end the launch.
    template <typename Describe>
    void report(const Wave& wave, const FindingKey& key, FindingClass severity, Describe&& describe) {
        if (Finding* finding = log_.note(key)) {
            start(wave, *finding, severity);
            describe(*finding);
            finish(*finding);
        }
    }
    /// A fault that is about to end the launch.
    void note(const Wave& wave, uint64_t pc, const Fault& fault);

  private:
    void start(const Wave& wave, Finding& finding, FindingClass severity) const;
    void finish(const Finding& finding) const;

    const DispatchContext& dispatch_;
    FindingLog& log_;
};

}  // namespace asmevo::emulator
