// Operations for which torch has a kernel of CUDA only, composed of others.
#pragma once

#include <torch/library.h>

namespace asmevo::torch_device {

/// Registers them for CUDA tensors.
void register_composites(torch::Library& aten);

}  // namespace asmevo::torch_device
