"""Runs under `asmevo emulate`: calls each name of torch.cuda and prints what came of it as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

cuda: Any = torch.cuda


def use_stream_context() -> bool:
    side = cuda.Stream()
    with cuda.stream(side):
        inside = cuda.current_stream() == side
    return bool(inside and cuda.current_stream() == cuda.default_stream())


def use_event() -> bool:
    first, last = (cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    last.record()
    last.synchronize()
    return bool(first.query() and first.elapsed_time(last) >= 0 and first.cuda_event)


def use_graph() -> bool:
    x = torch.ones(4, device="cuda")
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = x + 1
    x.fill_(5)
    graph.replay()
    return bool((y == 6).all())


def use_graphed_callable() -> bool:
    layer = torch.nn.Linear(4, 4, device="cuda")
    sample = torch.randn(2, 4, device="cuda", requires_grad=True)
    graphed = cuda.make_graphed_callables(layer, (sample,))
    x = torch.randn(2, 4, device="cuda")
    return bool(torch.allclose(graphed(x), torch.nn.functional.linear(x, layer.weight, layer.bias)))


def use_raw_memory() -> bool:
    address = cuda.caching_allocator_alloc(256)
    cuda.caching_allocator_delete(address)
    return bool(address)


def use_peaks() -> bool:
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    tensor = torch.empty(1000, dtype=torch.uint8, device="cuda")
    grown = cuda.memory_allocated() - before
    del tensor
    peak = cuda.max_memory_allocated() - before
    return bool((grown, peak, cuda.memory_allocated()) == (1000, 1000, before))


def use_seed() -> bool:
    cuda.manual_seed(3)
    first = torch.rand(8, device="cuda")
    cuda.manual_seed(3)
    return bool((torch.rand(8, device="cuda") == first).all())


def use_rng_state() -> bool:
    state = cuda.get_rng_state()
    first = torch.rand(8, device="cuda")
    cuda.set_rng_state(state)
    return bool((torch.rand(8, device="cuda") == first).all())


def use_all_rng_states() -> bool:
    cuda.set_rng_state_all(cuda.get_rng_state_all())
    return len(cuda.get_rng_state_all()) == 1


def use_autocast() -> bool:
    a = torch.ones(2, 2, device="cuda")
    with cuda.amp.autocast(dtype=torch.bfloat16):
        return (a @ a).dtype == torch.bfloat16


def use_nvtx() -> bool:
    with cuda.nvtx.range("outer"):
        depth = cuda.nvtx.range_push("inner")
        cuda.nvtx.range_pop()
    return bool(depth == 1)


def use_profiler() -> bool:
    with cuda.profiler.profile():
        pass
    return True


def use_seeds_of_all() -> bool:
    cuda.manual_seed_all(7)
    return bool(cuda.initial_seed() == 7)


def draw_seed(function: Callable[[], None]) -> bool:
    cuda.manual_seed(1)
    function()
    return bool(cuda.initial_seed() != 1)


def fails_with(error: type[Exception], call: Callable[[], Any]) -> bool:
    try:
        call()
    except error:
        return True
    return False


def is_cuda_storage(name: str) -> bool:
    storage = getattr(cuda, name)(3)
    return bool(storage.device.type == "cuda" and len(storage) == 3)


def make_old_tensor(name: str) -> Any:
    return getattr(cuda, name)(1)


_REAL = ("Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double", "Bool", "BFloat16")
_STORAGES = (*_REAL, "ComplexFloat", "ComplexDouble")

# Each covered name with a call that shows it at work: it returns True.
COVERED: dict[str, Callable[[], Any]] = {
    "init": lambda: cuda.init() is None,
    "is_initialized": cuda.is_initialized,
    "is_available": cuda.is_available,
    "device_count": lambda: cuda.device_count() == 1,
    "current_device": lambda: cuda.current_device() == 0,
    "set_device": lambda: fails_with(torch.AcceleratorError, lambda: cuda.set_device(1)),
    "device": lambda: cuda.device(0).__enter__() is None,
    "device_of": lambda: cuda.device_of(torch.ones(1, device="cuda")).idx == 0,
    "can_device_access_peer": lambda: cuda.can_device_access_peer(0, 0) is False,
    "get_device_properties": lambda: cuda.get_device_properties().warp_size == 64,
    "get_device_name": lambda: cuda.get_device_name() == "AMD Instinct MI300X",
    "get_device_capability": lambda: cuda.get_device_capability() == (9, 4),
    "get_arch_list": lambda: cuda.get_arch_list() == ["gfx942"],
    "is_bf16_supported": cuda.is_bf16_supported,
    "is_tf32_supported": cuda.is_tf32_supported,
    "has_half": lambda: cuda.has_half,
    "has_magma": lambda: cuda.has_magma is False,
    "synchronize": lambda: cuda.synchronize() is None,
    "cudart": lambda: cuda.cudart().cudaMemGetInfo(0)[1] > 0,
    "check_error": lambda: fails_with(cuda.CudaError, lambda: cuda.check_error(2)),
    "cudaStatus": lambda: cuda.cudaStatus.SUCCESS == 0,
    "CudaError": lambda: "memory" in str(cuda.CudaError(2)),
    "DeferredCudaCallError": lambda: issubclass(cuda.DeferredCudaCallError, Exception),
    "Stream": lambda: cuda.Stream().cuda_stream != 0 and cuda.Stream().query(),
    "ExternalStream": lambda: cuda.ExternalStream(cuda.Stream().cuda_stream).synchronize() is None,
    "StreamContext": use_stream_context,
    "stream": use_stream_context,
    "streams": lambda: cuda.streams.Stream is cuda.Stream,
    "set_stream": lambda: cuda.set_stream(cuda.default_stream()) is None,
    "current_stream": lambda: cuda.current_stream().cuda_stream == 0,
    "default_stream": lambda: cuda.default_stream().cuda_stream == 0,
    "get_stream_from_external": lambda: cuda.get_stream_from_external(0) == cuda.default_stream(),
    "Event": use_event,
    "CUDAGraph": use_graph,
    "graph": use_graph,
    "graphs": lambda: cuda.graphs.CUDAGraph is cuda.CUDAGraph,
    "graph_pool_handle": lambda: cuda.graph_pool_handle() != cuda.graph_pool_handle(),
    "is_current_stream_capturing": lambda: cuda.is_current_stream_capturing() is False,
    "make_graphed_callables": use_graphed_callable,
    "memory_allocated": use_peaks,
    "max_memory_allocated": use_peaks,
    "memory_reserved": lambda: cuda.memory_reserved() == cuda.memory_allocated(),
    "max_memory_reserved": lambda: cuda.max_memory_reserved() == cuda.max_memory_allocated(),
    "memory_cached": lambda: cuda.memory_cached() == cuda.memory_reserved(),
    "max_memory_cached": lambda: cuda.max_memory_cached() == cuda.max_memory_reserved(),
    "memory_stats": lambda: "allocated_bytes.all.peak" in cuda.memory_stats(),
    "memory_stats_as_nested_dict": lambda: "allocated_bytes" in cuda.memory_stats_as_nested_dict(),
    "memory_summary": lambda: "Allocated memory" in cuda.memory_summary(),
    "reset_peak_memory_stats": use_peaks,
    "reset_accumulated_memory_stats": lambda: cuda.reset_accumulated_memory_stats() is None,
    "reset_max_memory_allocated": lambda: cuda.reset_max_memory_allocated() is None,
    "reset_max_memory_cached": lambda: cuda.reset_max_memory_cached() is None,
    "mem_get_info": lambda: cuda.mem_get_info()[0] <= cuda.mem_get_info()[1],
    "device_memory_used": lambda: cuda.device_memory_used() >= cuda.memory_allocated(),
    "memory": lambda: cuda.memory.memory_allocated is cuda.memory_allocated,
    "empty_cache": lambda: cuda.empty_cache() is None,
    "ipc_collect": lambda: cuda.ipc_collect() is None,
    "caching_allocator_alloc": use_raw_memory,
    "caching_allocator_delete": lambda: fails_with(
        ValueError, lambda: cuda.caching_allocator_delete(64)
    ),
    "caching_allocator_enable": lambda: cuda.caching_allocator_enable(False) is None,
    "caching_allocator_disabled": lambda: cuda.caching_allocator_disabled().__enter__() is None,
    "get_allocator_backend": lambda: cuda.get_allocator_backend() == "native",
    "get_per_process_memory_fraction": lambda: cuda.get_per_process_memory_fraction() == 1.0,
    "manual_seed": use_seed,
    "manual_seed_all": use_seeds_of_all,
    "seed": lambda: draw_seed(cuda.seed),
    "seed_all": lambda: draw_seed(cuda.seed_all),
    "initial_seed": use_seeds_of_all,
    "get_rng_state": use_rng_state,
    "set_rng_state": use_rng_state,
    "get_rng_state_all": use_all_rng_states,
    "set_rng_state_all": use_all_rng_states,
    "default_generators": lambda: cuda.default_generators[0].device.type == "cuda",
    "random": lambda: cuda.random.manual_seed is cuda.manual_seed,
    "amp": use_autocast,
    "nvtx": use_nvtx,
    "profiler": use_profiler,
    "get_sync_debug_mode": lambda: cuda.get_sync_debug_mode() == 0,
    "set_sync_debug_mode": lambda: cuda.set_sync_debug_mode("default") is None,
    "sparse": lambda: cuda.sparse is not None,
} | {f"{name}Storage": partial(is_cuda_storage, f"{name}Storage") for name in _STORAGES}

# Each refused name with a call that raises NotImplementedError with its name in the text.
REFUSED: dict[str, Callable[[], Any]] = {
    "GreenContext": lambda: cuda.GreenContext.create(num_sms=4),
    "MemPool": cuda.MemPool,
    "use_mem_pool": lambda: cuda.use_mem_pool(type("Pool", (), {"id": (0, 1)})()).__enter__(),
    "CUDAPluggableAllocator": lambda: cuda.CUDAPluggableAllocator("libc.so.6", "malloc", "free"),
    "change_current_allocator": lambda: cuda.change_current_allocator(
        cuda.memory._CUDAAllocator(None)
    ),
    "memory_snapshot": cuda.memory_snapshot,
    "set_per_process_memory_fraction": lambda: cuda.set_per_process_memory_fraction(0.5),
    "host_memory_stats": cuda.host_memory_stats,
    "host_memory_stats_as_nested_dict": cuda.host_memory_stats_as_nested_dict,
    "reset_peak_host_memory_stats": cuda.reset_peak_host_memory_stats,
    "reset_accumulated_host_memory_stats": cuda.reset_accumulated_host_memory_stats,
    "current_blas_handle": cuda.current_blas_handle,
    "current_solver_handle": cuda.current_solver_handle,
    "jiterator": lambda: cuda.jiterator._create_jit_fn(
        "template <typename T> T f(T x) { return x; }"
    )(torch.ones(1, device="cuda")),
    "tunable": lambda: cuda.tunable.enable(True),
    "nccl": cuda.nccl.version,
    "list_gpu_processes": cuda.list_gpu_processes,
    "utilization": cuda.utilization,
    "memory_usage": cuda.memory_usage,
    "temperature": cuda.temperature,
    "power_draw": cuda.power_draw,
    "clock_rate": cuda.clock_rate,
    "get_gencode_flags": cuda.get_gencode_flags,
}
# Torch itself refuses these.
TYPES: dict[str, Callable[[], Any]] = {
    f"{name}Tensor": partial(make_old_tensor, f"{name}Tensor") for name in _REAL
}


def outcome(call: Callable[[], Any]) -> str:
    try:
        return repr(call())
    except Exception as error:  # what is raised is what the test looks at
        return f"{type(error).__name__}: {error}"


def main() -> None:
    calls = {"covered": COVERED, "refused": REFUSED, "types": TYPES}
    result: dict[str, Any] = {
        kind: {name: outcome(call) for name, call in group.items()} for kind, group in calls.items()
    }
    result["public"] = sorted(cuda.__all__)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
