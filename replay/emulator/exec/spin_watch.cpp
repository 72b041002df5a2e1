#include "exec/spin_watch.h"

#include <cstring>
#include <string_view>

namespace asmevo::emulator {
namespace {

// A loop is first looked at after this many rounds, and again each time the number has doubled.
constexpr uint64_t kFirstCheck = 16;

/// Each step is a bijection of the digest and of the word, so one changed word always shows.
uint64_t digest_words(const void* data, size_t bytes, uint64_t seed) {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15ull;
    const auto* at = static_cast<const char*>(data);
    uint64_t chains[4] = {seed, seed + 1, seed + 2, seed + 3};
    for (size_t i = 0; i + 32 <= bytes; i += 32) {
        for (size_t chain = 0; chain < 4; ++chain) {
            uint64_t word;
            std::memcpy(&word, at + i + 8 * chain, 8);
            chains[chain] = (chains[chain] ^ word) * kOdd;
            chains[chain] ^= chains[chain] >> 32;
        }
    }
    uint64_t digest = 0;
    for (uint64_t chain : chains) {
        digest = (digest ^ chain) * kOdd;
        digest ^= digest >> 29;
    }
    return digest;
}

uint64_t digest_of(const Wave& wave) {
    uint64_t digest = digest_words(wave.sgpr, sizeof wave.sgpr, uint64_t{wave.mode} << 8 | wave.scc);
    return digest_words(wave.vgpr.data(), wave.vgpr.size() * sizeof(LaneArray), digest);
}

bool stores_or_leaves(const Inst& inst) {
    std::string_view name = inst.info->name;
    switch (inst.info->category) {
        case Category::kVmemStore: case Category::kFlatStore: case Category::kEnd: case Category::kBarrier:
            return true;
        case Category::kLdsNoReturn:
            return inst.lds_shape.is_write && !inst.lds_shape.is_atomic;
        case Category::kSmem:
            return name.find("store") != std::string_view::npos;
        default:
            return name.starts_with("s_swappc") || name.starts_with("s_setpc") || name.starts_with("s_call");
    }
}

bool reads_from_outside(const Inst& inst) {
    std::string_view name = inst.info->name;
    switch (inst.info->category) {
        case Category::kVmemLoad: case Category::kVmemAtomic: case Category::kFlatLoad: case Category::kFlatAtomic:
        case Category::kLds: case Category::kLdsNoReturn: case Category::kSmem: case Category::kMessage:
            return true;
        default:
            return name.starts_with("s_getreg");
    }
}

}  // namespace

void SpinWatch::start(uint64_t from, uint64_t to) {
    reset();
    from_ = from;
    to_ = to;
    check_at_ = kFirstCheck;
}

SpinWatch::Loop SpinWatch::classify(CodeSegment& code) const {
    Loop loop = Loop::kClosed;
    for (uint64_t pc = to_; pc <= from_;) {
        if (!code.decodes_at(pc)) {
            return Loop::kStores;  // data that the loop jumps over
        }
        const Inst& inst = code.at(pc);
        if (stores_or_leaves(inst)) {
            return Loop::kStores;
        }
        if (reads_from_outside(inst)) {
            loop = Loop::kReads;
        }
        pc += 4ull * inst.size_dwords;
    }
    return loop;
}

SpinWatch::Verdict SpinWatch::compare(const Wave& wave, CodeSegment& code) {
    if (loop_ == Loop::kUnknown) {
        loop_ = classify(code);
    }
    if (loop_ == Loop::kStores) {
        check_at_ = ~uint64_t{0};
        return Verdict::kGoesOn;
    }
    uint64_t state = digest_of(wave);
    is_spinning_ = has_state_ && state == state_;
    check_at_ = has_state_ && !is_spinning_ ? 2 * rounds_ : rounds_ + 1;
    has_state_ = !has_state_ || is_spinning_;
    state_ = state;
    if (!is_spinning_) {
        return Verdict::kGoesOn;
    }
    return loop_ == Loop::kClosed ? Verdict::kEndless : Verdict::kSpins;
}

}  // namespace asmevo::emulator
