// hipStreamPerThread: a handle that stands for a stream of the calling thread's own.
#pragma once

#include "hip/stream.h"

namespace asmevo::emulator::hip {

/// The stream behind a handle: the calling thread's own for hipStreamPerThread, else the same.
Stream* resolve_stream(const Stream* stream);

}  // namespace asmevo::emulator::hip
