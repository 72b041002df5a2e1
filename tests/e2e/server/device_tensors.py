"""Torch tensors in memory that the HIP runtime allocated.

Torch's CPU build has no HIP device. Every tensor of the server therefore lives in a `hipMalloc`
allocation and torch sees it as a CPU tensor without a copy, which the emulated device allows: its
addresses are host addresses, as on a unified-memory APU. Capture so finds each kernel argument in a
true device allocation of its exact size.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from hip import hip as _hip_module
from torch.overrides import TorchFunctionMode

__all__ = ["DeviceFactories", "to_device"]

hip: Any = _hip_module  # hip-python's own annotations are incomplete

_FACTORIES: frozenset[Callable[..., Any]] = frozenset(
    {
        torch.empty,
        torch.empty_like,
        torch.empty_strided,
        torch.full,
        torch.full_like,
        torch.ones,
        torch.ones_like,
        torch.zeros,
        torch.zeros_like,
    }
)


def _check(answer: Iterable[Any], what: str) -> list[Any]:
    status, *values = answer
    if int(status) != 0:
        raise RuntimeError(f"{what} failed: {status}")
    return values


def _allocate(size_bytes: int) -> ctypes.Array[ctypes.c_char]:
    """A `hipMalloc` allocation as a buffer; freed when the last tensor over it is gone."""
    (pointer,) = _check(hip.hipMalloc(size_bytes), f"hipMalloc({size_bytes})")
    address = int(pointer)
    buffer = (ctypes.c_char * size_bytes).from_address(address)
    release = weakref.finalize(buffer, hip.hipFree, address)
    release.atexit = False  # the process' end frees it; the runtime may be gone by then
    return buffer


def to_device(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor into an allocation of its own, with the same shape and strides."""
    extent = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    buffer = _allocate((extent + 1) * tensor.element_size())
    flat = torch.frombuffer(buffer, dtype=tensor.dtype)
    placed = flat.as_strided(tensor.shape, tensor.stride())
    placed.copy_(tensor)
    return placed


class DeviceFactories(TorchFunctionMode):
    """While active, what `torch.empty` and its like return lives in device memory."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run a factory on the CPU and move its result; leave every other function alone."""
        options = dict(kwargs or {})
        if func not in _FACTORIES:
            return func(*args, **options)
        options.pop("device", None)
        return to_device(func(*args, **options))
