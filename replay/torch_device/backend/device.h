#pragma once

#include <c10/core/Device.h>

namespace asmevo::torch_device {

/// The only device there is.
inline constexpr c10::DeviceIndex kDeviceIndex = 0;
inline const c10::Device kDevice(c10::DeviceType::CUDA, kDeviceIndex);

}  // namespace asmevo::torch_device
