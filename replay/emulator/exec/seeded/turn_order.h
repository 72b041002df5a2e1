// Turns of a workgroup's waves: in order, reversed, or permuted by a seed.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "exec/dispatch.h"
#include "exec/seeded/random.h"

namespace asmevo::emulator {

class TurnOrder {
  public:
    /// Instructions a wave runs before the next one gets its turn: long enough to keep its registers in the cache, short
    /// enough that waves that wait for each other through memory make progress.
    static constexpr unsigned kSlice = 4096;

    void restart(const DispatchOptions& options, uint64_t workgroup, size_t waves) {
        is_seeded_ = options.seed != 0;
        random_ = Random(options.seed, workgroup);
        order_.resize(waves);
        std::iota(order_.begin(), order_.end(), 0u);
        if (options.reverse_waves) {
            std::reverse(order_.begin(), order_.end());
        }
    }

    /// The waves in the order of their next turns.
    const std::vector<unsigned>& next() {
        for (size_t left = is_seeded_ ? order_.size() : 0; left > 1; --left) {
            std::swap(order_[left - 1], order_[random_.below(left)]);
        }
        return order_;
    }

    unsigned slice() { return is_seeded_ ? 1u << random_.below(13) : kSlice; }

  private:
    bool is_seeded_ = false;
    Random random_;
    std::vector<unsigned> order_;
};

}  // namespace asmevo::emulator
