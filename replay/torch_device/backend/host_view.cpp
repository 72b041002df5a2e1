#include "host_view.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "precision.h"

namespace asmevo::torch_device {
namespace {

const c10::Device kHost(c10::DeviceType::CPU);

/// Lazy conjugation and negation are bits of a tensor's key set: a view keeps them.
c10::DispatchKeySet lazy_bits(const at::Tensor& tensor) {
    constexpr c10::DispatchKeySet kLazy({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                                         c10::DispatchKey::ZeroTensor});
    return tensor.key_set() & kLazy;
}

at::Tensor make_view(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& shape) {
    auto view = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, shape.dtype());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(shape.sizes(), shape.strides(),
                                                      shape.storage_offset());
    return view;
}

bool has_same_shape(const at::Tensor& a, const at::Tensor& b) {
    return a.sizes() == b.sizes() && a.strides() == b.strides() &&
           a.storage_offset() == b.storage_offset();
}

at::Tensor copy_to_device(const at::Tensor& host) {
    TORCH_CHECK_NOT_IMPLEMENTED(host.layout() == c10::Layout::Strided && !host.is_quantized(),
                                "the emulated device has strided tensors only, not ",
                                host.layout());
    auto device = at::empty_strided(host.sizes(), host.strides(),
                                    host.options().device(c10::DeviceType::CUDA));
    if (host._is_zerotensor()) {
        return device.zero_();
    }
    if (host.numel() > 0) {
        std::memcpy(device.mutable_data_ptr(), host.const_data_ptr(), device.storage().nbytes());
    }
    device._set_conj(host.is_conj());
    device._set_neg(host.is_neg());
    return device;
}

}  // namespace

at::Tensor HostViews::view_of(const at::Tensor& device, bool is_written) {
    for (Entry& entry : entries_) {
        if (entry.device.is_same(device)) {
            entry.is_written |= is_written;
            return entry.in_float.defined() ? entry.in_float : entry.host;
        }
    }
    TORCH_CHECK_NOT_IMPLEMENTED(device.layout() == c10::Layout::Strided,
                                "the emulated device has strided tensors only, not ",
                                device.layout());
    const c10::Storage& owner = device.storage();
    c10::Storage storage;
    for (const Entry& entry : entries_) {
        if (entry.device.storage().unsafeGetStorageImpl() == owner.unsafeGetStorageImpl()) {
            storage = c10::Storage(
                c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(entry.storage));
            break;
        }
    }
    if (!storage) {
        void* address = owner.unsafeGetStorageImpl()->mutable_data_ptr().get();
        storage = c10::Storage(c10::Storage::use_byte_size_t(), owner.nbytes(),
                               c10::DataPtr(address, kHost), c10::GetCPUAllocator(),
                               /*resizable=*/true);
    }
    auto host = make_view(std::move(storage),
                          lazy_bits(device) | c10::DispatchKeySet(c10::DispatchKey::CPU), device);
    if (device.unsafeGetTensorImpl()->is_wrapped_number()) {
        host.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    return add({device, host, host.storage().unsafeGetStorageImpl(), {}, is_written});
}

at::Tensor HostViews::add(Entry entry) {
    if (is_half(entry.host.scalar_type())) {
        half_type_ = entry.host.scalar_type();
        if (in_float_) {
            entry.in_float = entry.host.to(at::kFloat);
        }
    }
    at::Tensor operand = entry.in_float.defined() ? entry.in_float : entry.host;
    entries_.push_back(std::move(entry));
    return operand;
}

void HostViews::write_back() {
    for (const Entry& entry : entries_) {
        if (entry.in_float.defined() && entry.is_written) {
            entry.host.resize_(entry.in_float.sizes()).copy_(entry.in_float);
        }
        write_back_shape(entry);
    }
}

void HostViews::write_back_shape(const Entry& entry) {
    const c10::Storage& now = entry.host.storage();
    const bool is_moved = now.data() != entry.device.storage().data() ||
                          now.nbytes() != entry.device.storage().nbytes();
    if (!is_moved && has_same_shape(entry.host, entry.device)) {
        return;
    }
    if (is_moved) {
        const c10::Storage& target = entry.device.storage();
        at::native::resize_bytes_cpu(target.unsafeGetStorageImpl(), now.nbytes());
        if (now.nbytes() > 0) {
            std::memcpy(target.mutable_data(), now.data(), now.nbytes());
        }
    }
    entry.device.unsafeGetTensorImpl()->set_sizes_and_strides(
        entry.host.sizes(), entry.host.strides(), entry.host.storage_offset());
}

at::Tensor HostViews::to_device(const at::Tensor& host, bool may_round) {
    if (!host.defined() || !host.is_cpu()) {
        return host;
    }
    for (const Entry& entry : entries_) {
        if (entry.host.is_same(host) || entry.in_float.is_same(host)) {
            return entry.device;
        }
    }
    if (in_float_ && may_round && has_half() && host.scalar_type() == at::kFloat) {
        return copy_to_device(host.to(half_type_));
    }
    if (host.has_storage()) {
        for (const Entry& entry : entries_) {
            if (entry.storage == host.storage().unsafeGetStorageImpl()) {
                return make_view(entry.device.storage(),
                                 lazy_bits(host) | c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                 host);
            }
        }
    }
    return copy_to_device(host);
}

}  // namespace asmevo::torch_device
