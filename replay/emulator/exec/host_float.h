// The host's floating-point environment while it computes for the device.
#pragma once

#include <immintrin.h>

namespace asmevo::emulator {

/// Nearest-even rounding, denormals kept and no traps, whatever the program that launched the kernel had set for
/// its thread (a program may flush denormals); its setting comes back at the end.
class HostFloatScope {
  public:
    HostFloatScope() : saved_(_mm_getcsr()) { _mm_setcsr(kDefault); }
    ~HostFloatScope() { _mm_setcsr(saved_); }
    HostFloatScope(const HostFloatScope&) = delete;
    HostFloatScope& operator=(const HostFloatScope&) = delete;

  private:
    static constexpr unsigned kDefault = 0x1f80;  // MXCSR after reset
    unsigned saved_;
};

}  // namespace asmevo::emulator
