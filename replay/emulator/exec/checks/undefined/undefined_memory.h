// Device memory that is undefined during a dispatch: what nobody wrote before it, and what it wrote undefined data to.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "exec/checks/finding.h"
#include "memory/unwritten.h"

namespace asmevo::emulator {

/// One per dispatch; thread-safe. Bounded: what does not fit counts as defined.
class UndefinedMemory {
  public:
    struct Store {
        uint64_t pc = 0;
        uint32_t wave = 0;
        int lane = 0;
        Dim3 workgroup;
        uint8_t bytes = 0;  // bit per undefined byte of the dword
    };

    explicit UndefinedMemory(UnwrittenRanges unwritten) : unwritten_(std::move(unwritten)) {}

    const UnwrittenRanges& unwritten() const { return unwritten_; }
    /// Whether this dispatch has stored undefined data that is still there.
    bool has_stores() const { return count_.load(std::memory_order_relaxed) != 0; }
    /// A lane stores the `written` bytes of dword number `dword`; `by.bytes` of them are undefined.
    void store(uint64_t dword, uint8_t written, const Store& by);
    /// Bit per byte that this dispatch stored undefined.
    uint8_t stored_bytes(uint64_t dword) const;
    /// What stayed to the dispatch's end: one finding for each instruction that stored it. The text of the launch's
    /// failure where findings end it and there is one; otherwise empty.
    std::string report(const DispatchContext& dispatch, FindingLog& log) const;

  private:
    static constexpr size_t kMost = 1 << 20;

    const UnwrittenRanges unwritten_;
    mutable std::mutex mutex_;
    std::unordered_map<uint64_t, Store> stores_;  // by dword
    std::atomic<size_t> count_{0};
};

}  // namespace asmevo::emulator
