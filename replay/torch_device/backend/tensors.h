// The operations that make, view, resize and copy CUDA tensors. All others are the fallback's.
#pragma once

namespace asmevo::torch_device {

/// Registers the kernels of CUDA tensors in torch's dispatcher.
void register_kernels();

}  // namespace asmevo::torch_device
