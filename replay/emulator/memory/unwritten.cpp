#include "memory/unwritten.h"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <new>

namespace asmevo::emulator {
namespace {

// As f32, both halves are NaN; as an index or an address it is far out of bounds.
constexpr uint64_t kPattern = 0x7fa5c3e1ffb7d295;
constexpr uint64_t kWord = 8;
constexpr uint8_t kAllBytes = 0xff;

/// A byte of ones for each bit.
uint64_t spread(uint8_t bytes) {
    uint64_t mask = 0;
    for (unsigned byte = 0; byte < kWord; ++byte) {
        mask |= bytes >> byte & 1 ? uint64_t{0xff} << (8 * byte) : 0;
    }
    return mask;
}

/// Kernels may be writing at the same time.
uint64_t content(uint64_t word) {
    return __atomic_load_n(reinterpret_cast<const uint64_t*>(word), __ATOMIC_ACQUIRE);
}

struct State {
    std::mutex mutex;
    std::map<uint64_t, std::unique_ptr<UnwrittenRange>> ranges;  // by base
};

State& state() {
    static State& instance = *new State;
    return instance;
}

}  // namespace

UnwrittenRange::UnwrittenRange(uint64_t base, uint64_t size)
    : begin_(base), end_((base + size + kWord - 1) / kWord * kWord), written_until_(base),
      map_bytes_((end_ - begin_) / kWord) {
    void* map = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        throw std::bad_alloc();
    }
    by_device_ = static_cast<std::atomic<uint8_t>*>(map);
    std::fill(reinterpret_cast<uint64_t*>(begin_), reinterpret_cast<uint64_t*>(end_), kPattern);
}

UnwrittenRange::~UnwrittenRange() { munmap(by_device_, map_bytes_); }

uint8_t UnwrittenRange::unwritten_bytes(uint64_t word) const {
    // The content before the map: a kernel's thread marks what it writes before it writes.
    const uint64_t difference = content(word) ^ kPattern;
    const uint8_t by_device = by_device_[(word - begin_) / kWord].load(std::memory_order_acquire);
    if (by_device == 0) {
        return difference == 0 ? kAllBytes : 0;
    }
    const auto left = static_cast<uint8_t>(~by_device);
    return (difference & spread(left)) == 0 ? left : 0;
}

/// Calls `body(word, its bytes in [begin, end))` until it is true; words outside the range are left out.
template <typename Body>
bool UnwrittenRange::any_word(uint64_t begin, uint64_t end, Body body) const {
    end = std::min(end, end_);  // beyond, the access itself faults
    for (uint64_t word = std::max(begin / kWord * kWord, begin_); word < end; word += kWord) {
        const uint64_t first = std::max(begin, word) - word, last = std::min(end, word + kWord) - word;
        if (body(word, static_cast<uint8_t>((kAllBytes >> (kWord - (last - first))) << first))) {
            return true;
        }
    }
    return false;
}

bool UnwrittenRange::has_unwritten(uint64_t begin, uint64_t end) const {
    return any_word(begin, end, [&](uint64_t word, uint8_t bytes) { return (unwritten_bytes(word) & bytes) != 0; });
}

void UnwrittenRange::note_write(uint64_t begin, uint64_t end) {
    any_word(begin, end, [&](uint64_t word, uint8_t written) {
        if (written != kAllBytes && unwritten_bytes(word) == 0) {
            written = kAllBytes;  // the host wrote the word: whatever it is to hold later, it is defined
        }
        std::atomic<uint8_t>& known = by_device_[(word - begin_) / kWord];
        if (const uint8_t before = known.load(std::memory_order_relaxed); (before | written) != before) {
            known.fetch_or(written, std::memory_order_acq_rel);
        }
        return false;
    });
}

bool UnwrittenRange::has_unwritten() {
    while (written_until_ < end_ && unwritten_bytes(written_until_) == 0) {
        written_until_ += kWord;
    }
    return written_until_ < end_;
}

UnwrittenMemory& UnwrittenMemory::get() {
    static UnwrittenMemory instance;
    return instance;
}

void UnwrittenMemory::add(uint64_t base, uint64_t size) {
    if (size > kMostBytes || base % kWord != 0) {
        return;
    }
    auto range = std::make_unique<UnwrittenRange>(base, size);
    State& s = state();
    std::lock_guard lock(s.mutex);
    s.ranges[base] = std::move(range);
}

void UnwrittenMemory::remove(uint64_t base) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    s.ranges.erase(base);
}

UnwrittenRanges UnwrittenMemory::ranges() {
    State& s = state();
    std::lock_guard lock(s.mutex);
    UnwrittenRanges out;
    for (const auto& [base, range] : s.ranges) {
        if (range->has_unwritten()) {
            out.push_back(range.get());
        }
    }
    return out;
}

UnwrittenRange* UnwrittenView::look_up(uint64_t address) {
    const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                        [](uint64_t value, const UnwrittenRange* range) { return value < range->begin(); });
    begin_ = 0;
    end_ = after == ranges_.end() ? ~uint64_t{0} : (*after)->begin();
    found_ = nullptr;
    if (after != ranges_.begin()) {
        UnwrittenRange* const before = *std::prev(after);
        begin_ = before->end();
        if (address < before->end()) {
            begin_ = before->begin();
            end_ = before->end();
            found_ = before;
        }
    }
    return found_;
}

}  // namespace asmevo::emulator
