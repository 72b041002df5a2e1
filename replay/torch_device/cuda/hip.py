"""HIP calls through ctypes, with errors as the exceptions that torch has for them.

The library is the one that Triton and the tensors' allocator opened: torch's streams and events
are handles of that runtime.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import torch

__all__ = ["call", "check", "library", "status"]

_SUCCESS = 0
_OUT_OF_MEMORY = 2


@functools.cache
def library() -> ctypes.CDLL:
    """The HIP runtime of this process."""
    # As Triton finds it; by bare name the dynamic linker's search finds the same file.
    found = ctypes.CDLL(os.environ.get("TRITON_LIBHIP_PATH") or "libamdhip64.so")
    found.hipGetErrorString.restype = ctypes.c_char_p
    found.hipGetErrorName.restype = ctypes.c_char_p
    return found


def status(name: str, *arguments: Any) -> int:
    """Call a function and return its hipError_t."""
    result: int = getattr(library(), name)(*arguments)
    return result


def check(name: str, error: int) -> None:
    """Raise what torch raises for an error of a HIP call.

    Raises:
        torch.OutOfMemoryError: The device has no memory left.
        torch.AcceleratorError: Any other error.
    """
    if error == _SUCCESS:
        return
    text = library().hipGetErrorString(error).decode(errors="replace")
    symbol = library().hipGetErrorName(error).decode(errors="replace")
    message = f"HIP error: {text} ({name} returned {symbol}, {error})"
    if error == _OUT_OF_MEMORY:
        raise torch.OutOfMemoryError(message)
    failure = torch.AcceleratorError(message)
    vars(failure)["error_code"] = error
    raise failure


def call(name: str, *arguments: Any) -> None:
    """Call a function that must succeed."""
    check(name, status(name, *arguments))
