#pragma once

namespace asmevo::torch_device {

/// Makes torch's core ask us about CUDA: availability, generators, pinned memory.
void register_hooks();

}  // namespace asmevo::torch_device
