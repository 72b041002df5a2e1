// Software wait states at run time, over the instructions that a wave really executes.
#pragma once

#include <algorithm>
#include <cstdint>
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
            if (recent.clock >= recent.first_expiry) {
                drop_far(recent);
            }
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
        uint64_t first_expiry = ~uint64_t{0};  // the clock from which one of them is too far
    };
    /// What is known of a pair: the most wait states that a rule asks for.
    struct Pair {
        const HazardTraits *producer = nullptr, *consumer = nullptr;
        unsigned states = 0;
    };

    void drop_far(Recent& recent) {
        unsigned kept = 0;
        uint16_t interests = 0;
        uint64_t first_expiry = ~uint64_t{0};
        for (unsigned i = 0; i < recent.count; ++i) {
            const Producer producer = recent.producers[i];
            const uint64_t expiry = producer.clock + producer.traits->reach;
            if (recent.clock < expiry) {
                recent.producers[kept++] = producer;
                interests |= producer.traits->interests;
                first_expiry = std::min(first_expiry, expiry);
            }
        }
        recent.count = kept;
        recent.interests = interests;
        recent.first_expiry = first_expiry;
    }
    void push(Recent& recent, const Producer& producer) {
        if (recent.count == Recent::kSize) {
            drop_far(recent);
        }
        if (recent.count < Recent::kSize) {
            recent.producers[recent.count++] = producer;
            recent.interests |= producer.traits->interests;
            recent.first_expiry = std::min(recent.first_expiry, producer.clock + producer.traits->reach);
        }
    }
    unsigned required_states(const HazardTraits& producer, const HazardTraits& consumer) {
        Pair& pair = pairs_[(reinterpret_cast<uintptr_t>(&producer) * 31 + reinterpret_cast<uintptr_t>(&consumer)) / 64 %
                            kPairs];
        if (pair.producer != &producer || pair.consumer != &consumer) {
            pair = {&producer, &consumer, find_required_states(producer, consumer)};
        }
        return pair.states;
    }
    static unsigned find_required_states(const HazardTraits& producer, const HazardTraits& consumer);
    void check(const Wave& wave, const Recent& recent, const HazardTraits& consumer, uint64_t pc);
    void check_dgemm_between(const Wave& wave, const Recent& recent, unsigned index,
                             const HazardTraits& consumer, uint64_t pc);
    void report(const Wave& wave, const Requirement& requirement, unsigned actual, uint64_t pc,
                uint64_t producer_pc);

    static constexpr size_t kPairs = 512;

    Reporter& reporter_;
    std::vector<Recent> waves_;
    std::vector<Pair> pairs_ = std::vector<Pair>(kPairs);  // by a hash of both; a later pair takes a place over
};

}  // namespace asmevo::emulator
