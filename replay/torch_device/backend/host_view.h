// CPU tensors over the memory of CUDA tensors, for the length of one operation.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

namespace asmevo::torch_device {

/// Makes host views, finds the CUDA tensor behind one, and carries results back to the device.
/// The device's memory has the same addresses on the host, so nothing is copied for a view.
class HostViews {
  public:
    /// With `in_float`, views of half precision are copies in float, and results are rounded back.
    explicit HostViews(bool in_float = false) : in_float_(in_float) {}

    /// A CPU tensor of the same memory, shape, strides and type. One CUDA tensor has one view, and
    /// tensors that share a storage have views that share one.
    at::Tensor view_of(const at::Tensor& device, bool is_written = false);

    /// Carries what an operation did to a view's shape or storage over to its CUDA tensor, and what
    /// it wrote to a float copy.
    void write_back();

    /// Whether there is a view of half precision, or would be without `in_float`.
    bool has_half() const noexcept { return half_type_ != at::ScalarType::Undefined; }

    /// The CUDA tensor for a CPU tensor that an operation returned: the one it is the view of, a view
    /// of the same storage, or a copy in memory of its own. `may_round` allows a float result to
    /// become one of half precision.
    at::Tensor to_device(const at::Tensor& host, bool may_round);

  private:
    struct Entry {
        at::Tensor device;
        at::Tensor host;
        c10::StorageImpl* storage;  // the view's storage when it was made
        at::Tensor in_float;        // what the operation gets in place of `host`, if defined
        bool is_written;
    };

    static void write_back_shape(const Entry& entry);
    at::Tensor add(Entry entry);

    bool in_float_;
    at::ScalarType half_type_ = at::ScalarType::Undefined;
    c10::SmallVector<Entry, 8> entries_;
};

}  // namespace asmevo::torch_device
