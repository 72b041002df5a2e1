// Every operation that has no kernel of its own here runs torch's CPU kernel on the device's memory.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace asmevo::torch_device {

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace asmevo::torch_device
