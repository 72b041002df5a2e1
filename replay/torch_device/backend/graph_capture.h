// Torch operations inside a captured graph: they become host functions of the graph, in order with
// the launches, and run again at each replay.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>

namespace asmevo::torch_device {

using RunOperation = void (*)(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Records an operation on a captured stream. Returned tensors get their shapes and memory now and
/// their contents at a replay; what the operation writes to stays as it is. `run` runs it on the host.
void capture_operation(const c10::OperatorHandle& op, torch::jit::Stack* stack, RunOperation run);

/// Records any other work. It keeps what it captures by value as long as the graph lives.
void capture_work(std::function<void()> work);

/// Throws what an operation that waits for the device throws on a captured stream.
[[noreturn]] void refuse_in_capture(const std::string& what);

/// A CUDAGraph's share of the process' captures: begin, end, and forget by the number that end gave.
void begin_capture();
int64_t end_capture();
void release_capture(int64_t id);

/// What a torch operation of the last replay threw; empty if none did.
std::string take_replay_error();

/// Tells of memory that was allocated; on a captured stream the graph owns it.
void note_allocation(void* address);

/// Whether memory that a tensor gives up belongs to a graph, which then frees it.
bool is_kept_by_graph(void* address);

}  // namespace asmevo::torch_device
