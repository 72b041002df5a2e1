#include "tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "allocator.h"
#include "composite.h"
#include "device.h"
#include "fallback.h"
#include "graph_capture.h"
#include "hip_runtime.h"
#include "host_view.h"
#include "stream.h"

namespace asmevo::torch_device {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);
constexpr int kMemcpyDefault = 4;

void check_options(std::optional<at::Layout> layout, std::optional<at::Device> device,
                   std::optional<bool> pin_memory) {
    if (device) {
        check_device_index(device->index());
    }
    TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == at::kStrided,
                                "the emulated device has strided tensors only");
    TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format) {
    check_options(layout, device, pin_memory);
    return at::detail::empty_generic(sizes, device_allocator(), kKeys,
                                     c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory) {
    check_options(layout, device, pin_memory);
    return at::detail::empty_strided_generic(sizes, strides, device_allocator(), kKeys,
                                             c10::dtype_or_default(dtype));
}

/// Gives no memory: a lazy zero tensor has a size only.
class NoAllocator final : public c10::Allocator {
  public:
    c10::DataPtr allocate(size_t) override { return {nullptr, kDevice}; }
    void copy_data(void*, const void*, size_t) const override {}
};

at::Tensor efficient_zero_tensor(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                                 std::optional<at::Layout> layout,
                                 std::optional<at::Device> device,
                                 std::optional<bool> pin_memory) {
    check_options(layout, device, pin_memory);
    static NoAllocator allocator;
    return at::detail::empty_generic(sizes, &allocator,
                                     kKeys.add(c10::DispatchKey::ZeroTensor),
                                     c10::dtype_or_default(dtype), std::nullopt);
}

/// set_() without a source: an empty tensor of the device.
at::Tensor& set_empty(at::Tensor& self) {
    return self.set_(at::detail::empty_generic({0}, device_allocator(), kKeys,
                                               self.scalar_type(), std::nullopt));
}

bool is_plain_copy(const at::Tensor& to, const at::Tensor& from) {
    return to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() &&
           to.is_contiguous() && from.is_contiguous() && to.is_conj() == from.is_conj() &&
           to.is_neg() == from.is_neg() && !to._is_zerotensor() && !from._is_zerotensor();
}

void copy_now(const at::Tensor& self, const at::Tensor& source) {
    if (is_plain_copy(self, source)) {
        if (self.numel() > 0) {
            check(hip().hipMemcpyAsync(self.mutable_data_ptr(), source.const_data_ptr(),
                                       self.nbytes(), kMemcpyDefault, handle_of(current_stream())),
                  "hipMemcpyAsync");
        }
        return;
    }
    check_device();
    HostViews views;
    at::Tensor to = self.is_cuda() ? views.view_of(self) : self;
    to.copy_(source.is_cuda() ? views.view_of(source) : source);
}

/// Copies between and within the CPU and the device; `self` or `source` is a CUDA tensor.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
    TORCH_CHECK(self.defined() && source.defined(), "copy_ needs two tensors");
    if (!is_capturing()) {
        copy_now(self, source);
        return self;
    }
    if (!self.is_cuda() && !non_blocking) {
        refuse_in_capture("a copy to the CPU waits for the device");
    }
    capture_work([self, source] { copy_now(self, source); });
    return self;
}

void record_stream(at::Tensor&, at::Stream) {
    // Memory is freed only when no launch runs, so nothing has to be delayed.
}

/// Operations that the fallback would not get, because torch composes them of others for a device
/// without a kernel: by algorithms of CUDA (convolutions), or with more rounding than a kernel has.
constexpr const char* kHostKernels[] = {
    "_convolution", "_stack", "_stack.out", "addr", "addr.out", "convolution",
    "convolution_backward", "convolution_overrideable", "linalg__powsum", "mish_backward",
    "native_group_norm", "native_layer_norm", "silu_backward",
};

void host_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    run_on_host(op, stack);
}

}  // namespace

void register_kernels() {
    constexpr auto kKey = c10::DispatchKey::CUDA;
    static auto& aten =
        *new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
    static auto& all = *new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    aten.impl("empty.memory_format", empty);
    aten.impl("empty_strided", empty_strided);
    aten.impl("_efficientzerotensor", efficient_zero_tensor);
    aten.impl("as_strided", at::native::as_strided_tensorimpl);
    aten.impl("view", at::native::view);
    aten.impl("_reshape_alias", at::native::_reshape_alias);
    // Torch's CPU kernels of these work by the storage's own allocator.
    aten.impl("resize_", at::native::resize_);
    aten.impl("set_.source_Storage", static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(
                                      at::native::set_));
    aten.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
    aten.impl("set_.source_Tensor", at::native::set_tensor_);
    aten.impl("set_", set_empty);
    aten.impl("copy_", copy);
    aten.impl("record_stream", record_stream);
    for (const char* name : kHostKernels) {
        aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&host_kernel>());
    }
    register_composites(aten);
    all.fallback(torch::CppFunction::makeFromBoxedFunction<&host_kernel>());
}

}  // namespace asmevo::torch_device
