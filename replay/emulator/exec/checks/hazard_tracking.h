// Software wait states at run time, over the instructions that a wave really executes.
#pragma once

#include <vector>

#include "exec/checks/finding.h"
#include "exec/checks/hazard_rules.h"

namespace asmevo::emulator {

class HazardTracker {
  public:
    explicit HazardTracker(Reporter& reporter) : reporter_(reporter) {}

    void reset(size_t waves) { waves_.assign(waves, {}); }

    /// An instruction that is about to execute.
    void note(const Wave& wave, const HazardTraits& traits, uint64_t pc) {
        Recent& recent = waves_[wave.wave_id];
        if (recent.count > 0) {
            drop_far(recent);
            if (recent.interests & traits.uses) {
                check(wave, recent, traits, pc);
            }
        }
        recent.clock += traits.states;
        if (traits.reach > 0) {
            push(recent, {&traits, pc, recent.clock});
        }
    }

  private:
    struct Producer {
        const HazardTraits* traits;
        uint64_t pc, clock;  // wait states of the wave after it was issued
    };
    /// Those that a rule may still concern, oldest first. At most as many as the longest reach: each takes a wait state.
    struct Recent {
        static constexpr unsigned kSize = 24;
        Producer producers[kSize];
        unsigned count = 0;
        uint16_t interests = 0;
        uint64_t clock = 0;
    };

    void drop_far(Recent& recent) {
        unsigned kept = 0;
        uint16_t interests = 0;
        for (unsigned i = 0; i < recent.count; ++i) {
            const Producer producer = recent.producers[i];
            if (recent.clock - producer.clock < producer.traits->reach) {
                recent.producers[kept++] = producer;
                interests |= producer.traits->interests;
            }
        }
        recent.count = kept;
        recent.interests = interests;
    }
    void push(Recent& recent, const Producer& producer) {
        if (recent.count == Recent::kSize) {
            drop_far(recent);
        }
        if (recent.count < Recent::kSize) {
            recent.producers[recent.count++] = producer;
        }
    }
    void check(const Wave& wave, const Recent& recent, const HazardTraits& consumer, uint64_t pc);
    void check_dgemm_between(const Wave& wave, const Recent& recent, unsigned index,
                             const HazardTraits& consumer, uint64_t pc);
    void report(const Wave& wave, const Requirement& requirement, unsigned actual, uint64_t pc,
                uint64_t producer_pc);

    Reporter& reporter_;
    std::vector<Recent> waves_;
};

}  // namespace asmevo::emulator
