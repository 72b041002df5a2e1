// Times of operations on the device, for torch.profiler.
#pragma once

namespace asmevo::torch_device {

/// Lets torch.profiler record events of the device.
void register_profiler();

}  // namespace asmevo::torch_device
