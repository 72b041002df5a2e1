// Memory of CUDA tensors: each storage is one hipMalloc of exactly its size.
#pragma once

#include <c10/core/Allocator.h>

namespace asmevo::torch_device {

/// Makes the allocators; called once, before the first CUDA tensor.
void register_allocator();

c10::Allocator* device_allocator();
c10::Allocator* pinned_allocator();

/// Frees memory of a tensor that was kept longer than the tensor.
void free_device_memory(void* address);

/// Whether an address lies in memory that `pinned_allocator` gave.
bool is_pinned(const void* address);

}  // namespace asmevo::torch_device
