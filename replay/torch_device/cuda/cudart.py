"""`torch.cuda.cudart()`: the few runtime functions that torch exposes as a module."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import NoReturn

from . import hip
from .memory import memory_info
from .refusal import NotCoveredError

__all__ = ["CudaError", "make_module"]


class CudaError(int):
    """A hipError_t; torch knows the name of one."""

    success = 0


def _error_string(error: int) -> str:
    text: bytes = hip.library().hipGetErrorString(int(error))
    return text.decode(errors="replace")


def _host_register(address: int, size: int, flags: int) -> int:
    return hip.status("hipHostRegister", ctypes.c_void_p(address), ctypes.c_size_t(size), flags)


def _host_unregister(address: int) -> int:
    return hip.status("hipHostUnregister", ctypes.c_void_p(address))


def _stream_create(address: int) -> int:
    return hip.status("hipStreamCreate", ctypes.c_void_p(address))


def _stream_destroy(handle: int) -> int:
    return hip.status("hipStreamDestroy", ctypes.c_void_p(handle))


def make_module() -> ModuleType:
    """What `torch._C._cudart` is in a build with CUDA."""
    module = ModuleType("torch._C._cudart")

    def refuse_other(name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotCoveredError(f"torch.cuda.cudart().{name}")

    members = {
        "cudaError": CudaError,
        "cudaGetErrorString": _error_string,
        "cudaHostRegister": _host_register,
        "cudaHostUnregister": _host_unregister,
        "cudaMemGetInfo": memory_info,
        # There is no profiler to start; torch.cuda.profiler only brackets what one would record.
        "cudaProfilerStart": lambda: CudaError.success,
        "cudaProfilerStop": lambda: CudaError.success,
        "cudaStreamCreate": _stream_create,
        "cudaStreamDestroy": _stream_destroy,
        "__getattr__": refuse_other,
    }
    vars(module).update(members)
    return module
