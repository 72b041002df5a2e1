#include "precision.h"

#include <algorithm>
#include <array>

namespace asmevo::torch_device {
namespace {

// Measured against float64: the CPU kernels' errors grow with the length of the sum or product.
constexpr std::array<std::string_view, 10> kFloatOperations = {
    "aten::_index_put_impl_",
    "aten::cumprod",
    "aten::embedding_dense_backward",
    "aten::index_put",
    "aten::index_put_",
    "aten::native_batch_norm_backward",
    "aten::native_group_norm_backward",
    "aten::native_layer_norm",
    "aten::native_layer_norm_backward",
    "aten::prod",
};
static_assert(std::is_sorted(kFloatOperations.begin(), kFloatOperations.end()));

}  // namespace

bool accumulates_in_float(std::string_view operation) noexcept {
    return std::binary_search(kFloatOperations.begin(), kFloatOperations.end(), operation);
}

bool keeps_float_statistics(std::string_view operation) noexcept {
    return operation == "aten::native_layer_norm";
}

bool is_lack_of_half_kernel(std::string_view message) noexcept {
    const auto at = message.find("not implemented for '");
    return at != message.npos && (message.find("'Half'", at) != message.npos ||
                                  message.find("'BFloat16'", at) != message.npos);
}

}  // namespace asmevo::torch_device
