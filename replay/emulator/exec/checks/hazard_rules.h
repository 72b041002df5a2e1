// How many wait states must stand between two instructions that the hardware does not interlock.
//
// Sources: CDNA3 ISA guide, tables in 4.5 and 7.5 (CDNA4: 7.6), and what LLVM 22's GCNHazardRecognizer enforces on
// gfx90a, gfx942 and gfx950. What only LLVM, or only the ISA guide against LLVM, asks for is a caution.
#pragma once

#include "exec/checks/finding.h"
#include "exec/checks/hazard_traits.h"

namespace asmevo::emulator {

struct Requirement {
    const char* rule = "";
    unsigned states = 0;
    FindingClass severity = FindingClass::kError;
    RegSpan span{};  // what the two have in common; count 0: nothing
};

/// Registers that the first writes and the second reads; count 0: none.
RegSpan read_after_write(RegSpan::File file, const Inst& first, const Inst& second);

/// The rules that hold between a producer and a later consumer of its wave.
class Requirements {
  public:
    Requirements(const HazardTraits& producer, const HazardTraits& consumer);

    const Requirement* begin() const { return found_; }
    const Requirement* end() const { return found_ + count_; }

  private:
    static constexpr unsigned kMost = 12;

    void add(const char* rule, unsigned states, const RegSpan& span,
             FindingClass severity = FindingClass::kError);
    void scalar_results();
    void exec_results();
    void vector_results();
    void dot_results(const RegSpan& touched);
    void matrix_results();
    void matrix_after_matrix();
    unsigned result_states(bool is_memory, bool is_overwrite) const;
    unsigned overlap_states() const;

    const HazardTraits& producer_;
    const HazardTraits& consumer_;
    const Target target_;
    Requirement found_[kMost];
    unsigned count_ = 0;
};

}  // namespace asmevo::emulator
