// The registers that an instruction names, in a form that is quickly compared with a set of marked ones.
#pragma once

#include "isa/inst.h"

namespace asmevo::emulator {

/// Bits by register number: word n / 64 holds register n of its file.
class RegisterSet {
  public:
    void add(const RegSpan& span) {
        for (unsigned i = span.first; i < unsigned{span.first} + span.count; ++i) {
            if (span.file == RegSpan::kScalar) {
                scalar_[i >> 6 & 1] |= uint64_t{1} << (i & 63);
            } else {
                add_vector(i);
            }
        }
    }
    /// Whether one of them is marked in `scalar` (2 words) or `vector` (8 words).
    bool meets(const uint64_t* scalar, const uint64_t* vector) const {
        uint64_t both = (scalar[0] & scalar_[0]) | (scalar[1] & scalar_[1]);
        for (unsigned i = 0; i < count_; ++i) {
            both |= vector[parts_[i].word] & parts_[i].bits;
        }
        return both != 0;
    }

  private:
    static constexpr unsigned kWords = 8;
    struct Part {
        uint64_t bits = 0;
        unsigned word = 0;
    };

    void add_vector(unsigned number) {
        const unsigned word = number >> 6 & (kWords - 1);
        unsigned at = 0;
        while (at < count_ && parts_[at].word != word) {
            ++at;
        }
        count_ = at == count_ ? count_ + 1 : count_;
        parts_[at].word = word;
        parts_[at].bits |= uint64_t{1} << (number & 63);
    }

    uint64_t scalar_[2] = {};
    unsigned count_ = 0;
    Part parts_[kWords];  // only words that have a bit
};

}  // namespace asmevo::emulator
