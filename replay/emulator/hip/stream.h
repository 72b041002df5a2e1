// Streams and events. Every operation runs when it is enqueued, in the calling thread, so a stream
// is always idle when a call returns and stream order holds by construction.
#pragma once

#include <cstdint>

namespace asmevo::emulator::hip {

struct Stream {
    unsigned flags = 0;
    int priority = 0;
    uint64_t id = 0;
};

/// Null and the two special handles (legacy 1, per-thread 2) are streams; otherwise one that was
/// created and not destroyed.
bool is_stream(const Stream* stream);

}  // namespace asmevo::emulator::hip
