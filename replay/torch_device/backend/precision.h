// Where torch's CPU kernels keep half-precision sums that its GPU kernels keep in float.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace asmevo::torch_device {

/// Whether the operation must run in float on operands of half precision.
bool accumulates_in_float(std::string_view operation) noexcept;

/// Whether the operation's results beyond the first stay in float, as a GPU's saved statistics do.
bool keeps_float_statistics(std::string_view operation) noexcept;

/// Whether an error says that the CPU has no kernel for half precision, as the GPU has.
bool is_lack_of_half_kernel(std::string_view message) noexcept;

inline bool is_half(at::ScalarType type) noexcept {
    return type == at::kHalf || type == at::kBFloat16;
}

}  // namespace asmevo::torch_device
