"""What code that torch.compile generates asks of torch's C++ side beside `torch._C._cuda_*`."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import _C

__all__ = ["allow_generated_code"]


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def allow_generated_code() -> None:
    """Let inductor allocate on the device and launch through Triton's own launcher."""
    guards: Any = _C._dynamo.guards
    guards._empty_strided_cuda = _empty_strided
    # Torch's launcher of compiled kernels is C++ that its CPU build does not have.
    os.environ.setdefault("TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER", "0")
