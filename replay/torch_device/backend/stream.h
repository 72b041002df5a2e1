// Current device and stream of each thread; streams' ids are their hipStream_t, 0 the null stream.
#pragma once

#include <c10/core/Stream.h>

#include "hip_runtime.h"

namespace asmevo::torch_device {

/// Registers the device guard, through which torch's engine switches devices and streams.
void register_guard();

/// Throws unless the device is device 0 or "the current one".
void check_device_index(int64_t index);

c10::Stream current_stream() noexcept;
c10::Stream exchange_stream(c10::Stream stream);
c10::Stream make_stream(int priority);

/// The handle that HIP's functions take.
HipStream handle_of(const c10::Stream& stream) noexcept;

/// Whether launches on the current stream are recorded into a graph.
bool is_capturing();

}  // namespace asmevo::torch_device
