// Device memory that nobody has written since it was allocated.
//
// An allocation is filled with a pattern of eight bytes that no program writes by chance. Whoever writes over it leaves
// something else: a kernel, hipMemcpy, or the host through a pointer, as torch's CPU kernels do. So no write needs to be
// seen while it happens. Beside the memory stands a bit for each byte that a checked kernel wrote, so that a store of part
// of a word leaves the rest of it unwritten.
//
// Never taken for unwritten: what somebody wrote. Missed: up to seven bytes that share an aligned word with what the host
// wrote; allocations of more than kMostBytes; memory that a program's own allocator hands out again.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace asmevo::emulator {

/// One allocation. The addresses are those of the host; words are aligned to eight bytes.
class UnwrittenRange {
  public:
    /// Fills the memory, of which whole words must be mapped.
    UnwrittenRange(uint64_t base, uint64_t size);
    ~UnwrittenRange();
    UnwrittenRange(const UnwrittenRange&) = delete;
    UnwrittenRange& operator=(const UnwrittenRange&) = delete;

    uint64_t begin() const { return begin_; }
    uint64_t end() const { return end_; }
    /// Bit per byte of the word that nobody wrote. Thread-safe.
    uint8_t unwritten_bytes(uint64_t word) const;
    /// Whether any of the bytes [begin, end) was written by nobody. Thread-safe.
    bool has_unwritten(uint64_t begin, uint64_t end) const;
    /// The device is about to write the bytes [begin, end). Thread-safe.
    void note_write(uint64_t begin, uint64_t end);
    /// Whether anything is unwritten; what has been found to be written is not looked at again.
    bool has_unwritten();

  private:
    template <typename Body>
    bool any_word(uint64_t begin, uint64_t end, Body body) const;

    uint64_t begin_, end_;
    uint64_t written_until_;              // no word before it is unwritten
    std::atomic<uint8_t>* by_device_;     // by word: bit per byte
    uint64_t map_bytes_;
};

/// The allocations of which something is unwritten, by address: as they are while a dispatch runs.
using UnwrittenRanges = std::vector<UnwrittenRange*>;

/// One per process; thread-safe. Used only while undefined data is looked for.
class UnwrittenMemory {
  public:
    static constexpr uint64_t kMostBytes = 256u << 20;

    static UnwrittenMemory& get();
    /// A new allocation. One that is larger than kMostBytes is left alone.
    void add(uint64_t base, uint64_t size);
    void remove(uint64_t base);
    /// The ranges stay valid until they are removed.
    UnwrittenRanges ranges();
};

/// A thread's look-ups: remembers the range, or the gap, of the last address.
class UnwrittenView {
  public:
    explicit UnwrittenView(const UnwrittenRanges& ranges) : ranges_(ranges) {}

    bool is_empty() const { return ranges_.empty(); }
    /// The range that holds the address; null: all there is written.
    UnwrittenRange* find(uint64_t address) {
        return address - begin_ < end_ - begin_ ? found_ : look_up(address);
    }

  private:
    UnwrittenRange* look_up(uint64_t address);

    const UnwrittenRanges& ranges_;
    uint64_t begin_ = 0, end_ = 0;
    UnwrittenRange* found_ = nullptr;
};

}  // namespace asmevo::emulator
