// Numbers that look random and depend on a seed and a place only: not on threads, not on the host.
#pragma once

#include <cstdint>

namespace asmevo::emulator {

/// splitmix64 (Steele, Lea, Flood 2014).
class Random {
  public:
    Random() = default;
    Random(uint64_t seed, uint64_t place) : state_(seed * 0x9e3779b97f4a7c15ull) {
        state_ ^= next() + place;
        next();
    }
    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    /// 0 to `limit` - 1.
    uint64_t below(uint64_t limit) { return next() % limit; }

  private:
    uint64_t state_ = 0;
};

}  // namespace asmevo::emulator
