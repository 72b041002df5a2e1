// LDS races: two waves touch a byte between two barriers, one of them writes, and not both by atomics.
#pragma once

#include <vector>

#include "exec/checks/accesses.h"
#include "exec/checks/finding.h"

namespace asmevo::emulator {

class RaceTracker {
  public:
    explicit RaceTracker(Reporter& reporter) : reporter_(reporter) {}

    void reset(size_t lds_bytes);
    /// An instruction of known shape is about to execute.
    void note(const Wave& wave, const Inst& inst, const AccessShape& shape, const LdsFootprint& footprint, uint64_t pc);
    /// All live waves stand at a barrier: what they did is ordered before what they will do.
    void pass_barrier();

  private:
    // Who touched a byte: 0 nobody, otherwise a wave's number plus one, kMany for several.
    using Who = uint8_t;
    static constexpr Who kMany = 0x7f, kAtomic = 0x80;
    /// The instruction behind it, as an offset from the code's start, and its wave. Kept as words: many are written at once.
    class Toucher {
      public:
        explicit Toucher(uint64_t bits) : bits_(bits) {}
        Toucher(uint32_t offset, Who who) : bits_(uint64_t{who} << 32 | offset) {}
        uint64_t bits() const { return bits_; }
        uint32_t offset() const { return static_cast<uint32_t>(bits_); }
        Who who() const { return static_cast<Who>(bits_ >> 32); }

      private:
        uint64_t bits_;
    };
    /// The instruction that is about to execute.
    struct Current {
        const Wave& wave;
        const Inst& inst;
        const AccessShape& shape;
        uint64_t code;  // address of the code's start
        Toucher mine;
        bool is_write, is_atomic;
        bool has_conflict = false;  // reported already
    };

    void touch_piece(Current& current, const LdsFootprint& footprint, unsigned piece);
    template <typename Word>
    bool is_settled(const Current& current, const uint32_t* first, unsigned count) const;
    void touch_lanes(Current& current, const uint32_t* first, unsigned count, unsigned bytes);
    void touch(Current& current, size_t first, size_t end);
    void read(Current& current, size_t first, size_t end);
    void write(Current& current, size_t first, size_t end);
    void read_byte(Current& current, size_t byte);
    void write_byte(Current& current, size_t byte);
    void report(Current& current, size_t byte, const Toucher& other, bool other_wrote);

    Reporter& reporter_;
    std::vector<Who> writers_, readers_;  // by byte, with room behind the end for wide looks
    // By dword: the last writer, the first reader, and the last reader of another wave.
    std::vector<uint64_t> last_writer_, first_reader_, other_reader_;
    size_t lds_bytes_ = 0;
    size_t low_ = 0, high_ = 0;           // bytes touched since the last barrier
};

}  // namespace asmevo::emulator
