"""The memory functions of torch.cuda.

Each tensor is an allocation of its own from hipMalloc, of exactly its size, and nothing is cached:
what torch calls reserved is what is allocated.
"""

from __future__ import annotations

import ctypes
from typing import Any, NoReturn

import torch

from . import hip
from .refusal import NotCoveredError

__all__ = ["BINDINGS", "memory_info", "used_bytes"]

# Memory that raw_alloc gave out, so that a wrong pointer is refused.
_raw: set[int] = set()


def memory_info(device: int | None = None) -> tuple[int, int]:
    """Free and total bytes of the device."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    hip.call("hipMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def used_bytes(device: Any = None) -> int:
    """Bytes of the device that are in use."""
    free, total = memory_info()
    return total - free


def raw_alloc(size: int, stream: int) -> int:
    """Allocate device memory for another framework."""
    address = ctypes.c_void_p()
    hip.call("hipMalloc", ctypes.byref(address), ctypes.c_size_t(size))
    _raw.add(address.value or 0)
    return address.value or 0


def raw_delete(address: int) -> None:
    """Free what raw_alloc gave out."""
    if address not in _raw:
        raise ValueError(f"invalid device pointer: {address:#x}")
    _raw.discard(address)
    hip.call("hipFree", ctypes.c_void_p(address))


def memory_stats(device: int) -> dict[str, Any]:
    """The allocator's counters, nested as torch nests them."""
    stats: dict[str, Any] = torch._C._accelerator_getDeviceStats(device)
    return stats


def reset_peak(device: int) -> None:
    """Let the peaks start from what is allocated now."""
    torch._C._accelerator_resetPeakStats(device)


def reset_accumulated(device: int) -> None:
    """Let the counts of allocated and freed bytes start from 0."""
    torch._C._accelerator_resetAccumulatedStats(device)


def enable_caching(value: bool) -> None:
    """Caching is always off; asking for it is refused."""
    if value:
        raise NotCoveredError("torch.cuda.caching_allocator_enable(True)")


def refuse_pool(*arguments: Any) -> NoReturn:
    """Pools of memory do not exist where nothing is cached."""
    raise NotCoveredError("torch.cuda.use_mem_pool")


class MemPool:
    """What torch.cuda.MemPool is derived from."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Not covered."""
        raise NotCoveredError("torch.cuda.MemPool")


BINDINGS = {
    "_MemPool": MemPool,
    "_cuda_beginAllocateCurrentThreadToPool": refuse_pool,
    "_cuda_beginAllocateToPool": refuse_pool,
    "_cuda_cudaCachingAllocator_enable": enable_caching,
    "_cuda_cudaCachingAllocator_is_enabled": lambda: False,
    "_cuda_cudaCachingAllocator_raw_alloc": raw_alloc,
    "_cuda_cudaCachingAllocator_raw_delete": raw_delete,
    "_cuda_emptyCache": lambda: None,
    "_cuda_endAllocateToPool": refuse_pool,
    "_cuda_getAllocatorBackend": lambda: "native",
    "_cuda_getMemoryFraction": lambda device: 1.0,
    "_cuda_ipc_collect": lambda: None,
    "_cuda_memoryStats": memory_stats,
    "_cuda_releasePool": refuse_pool,
    "_cuda_resetAccumulatedMemoryStats": reset_accumulated,
    "_cuda_resetPeakMemoryStats": reset_peak,
}
