"""Where the verified kernels' tensors live, and Triton's driver for them."""

from __future__ import annotations

import torch

__all__ = ["activate", "device", "put"]


def activate() -> None:
    """Make Triton launch on the emulated device."""
    if not torch.cuda.is_available():
        import triton_device

        triton_device.activate()


def device() -> torch.device:
    """The device that wrappers are given."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def put(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the device with the same strides."""
    if torch.cuda.is_available():
        copy = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device()
        )
        copy.copy_(tensor)
        return copy
    from device_tensors import to_device

    return to_device(tensor) if tensor.numel() else tensor.clone()
