// Runs the waves of one workgroup, in turn, on the calling thread.
#pragma once

#include "exec/dispatch.h"
#include "exec/wave_setup.h"

namespace asmevo::emulator {

/// A fault with its whole report: kernel, place, surrounding code.
struct FaultReport {
    std::string text;
};

class WorkgroupRun {
  public:
    WorkgroupRun(DispatchContext& dispatch, Dim3 id);

    /// Gives every live wave one slice; true when all have ended. Throws FaultReport.
    bool step();

    uint64_t wave_count() const { return wave_count_; }
    uint64_t instructions() const { return instructions_; }
    /// Sets up the next workgroup in the same storage.
    void restart(Dim3 id);

  private:
    void run_slice(Wave& wave);
    void execute(Wave& wave, uint64_t& pc);
    void release_barrier();

    DispatchContext& dispatch_;
    CodeSegment& code_;
    WorkgroupStorage storage_;
    size_t wave_count_ = 0;
    uint64_t instructions_ = 0;
};

}  // namespace asmevo::emulator
