// Recognises a wave that waits in a loop: the same registers each time around.
#pragma once

#include <cstdint>

#include "exec/dispatch.h"

namespace asmevo::emulator {

/// One wave's last loop. Owned by its WorkgroupRun.
class SpinWatch {
  public:
    void reset() { *this = SpinWatch(); }

    enum class Verdict : uint8_t {
        kGoesOn,
        kSpins,    // all is as the last time around: only somebody else's store can change what the wave does
        kEndless,  // and the loop reads nothing that somebody else could change
    };

    /// A branch back from `from` to `to` was taken.
    Verdict note(const Wave& wave, CodeSegment& code, uint64_t from, uint64_t to) {
        if (from != from_ || to != to_) [[unlikely]] {
            start(from, to);
            return Verdict::kGoesOn;
        }
        return ++rounds_ >= check_at_ ? compare(wave, code) : Verdict::kGoesOn;
    }

    bool is_spinning() const { return is_spinning_; }
    /// Whether the last branch back has been taken several times; the loop is [first, last].
    bool is_looping() const { return rounds_ > 1; }
    uint64_t first() const { return to_; }
    uint64_t last() const { return from_; }

  private:
    /// What a loop's instructions allow to conclude from unchanged registers.
    enum class Loop : uint8_t { kUnknown, kStores, kReads, kClosed };

    void start(uint64_t from, uint64_t to);
    Verdict compare(const Wave& wave, CodeSegment& code);
    Loop classify(CodeSegment& code) const;

    uint64_t from_ = 0, to_ = 0, rounds_ = 0, check_at_ = 0;
    uint64_t state_ = 0;  // digest of the registers at the last check
    bool has_state_ = false, is_spinning_ = false;
    Loop loop_ = Loop::kUnknown;
};

}  // namespace asmevo::emulator
