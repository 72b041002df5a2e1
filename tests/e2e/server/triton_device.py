"""Makes Triton's AMD driver active in a process whose torch knows no HIP device.

Nothing of Triton is changed: a subclass of its HIPDriver answers the questions that it would ask
torch.cuda, and Triton's own launcher then drives the libamdhip64.so that the process finds.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from triton.backends.amd.driver import HIPDriver

__all__ = ["activate"]


class _CpuTorchHipDriver(HIPDriver):  # type: ignore[misc]  # Triton has no annotations
    """Device 0, its null stream, and CPU tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.get_current_device = self._current_device
        self.set_current_device = self._set_current_device
        self.get_current_stream = self._current_stream
        self.get_device_capability = self._device_capability

    @staticmethod
    def _current_device() -> int:
        return 0

    @staticmethod
    def _set_current_device(device: int) -> None:
        if device != 0:
            raise ValueError(f"this process has device 0 only, not {device}")

    @staticmethod
    def _current_stream(device: int | None = None) -> int:
        return 0

    @staticmethod
    def _device_capability(device: Any = None) -> tuple[int, int]:
        return (9, 4)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


def activate() -> None:
    """Make the driver the active one; opens the HIP library and asks for its properties."""
    triton.runtime.driver.set_active(_CpuTorchHipDriver())
