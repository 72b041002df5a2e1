// Random numbers of the device: torch's CPU engine, seeded anew for each operation from (seed, offset).
#pragma once

#include <ATen/core/Generator.h>

namespace asmevo::torch_device {

/// A new generator of the device.
at::Generator make_generator();

/// The one that operations use which name none.
const at::Generator& default_generator();

/// A CPU generator that stands for the next numbers of a device generator, which moves on.
at::Generator next_host_generator(const at::Generator& generator);

}  // namespace asmevo::torch_device
