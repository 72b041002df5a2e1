"""Storages in device memory: torch's constructor knows the devices that it was compiled for."""

from __future__ import annotations

from typing import Any

import torch
from torch.storage import UntypedStorage

__all__ = ["allow_device_storages"]


def _is_on_device(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"


def allow_device_storages() -> None:
    """Let `torch.UntypedStorage(size, device="cuda")` be the storage of a tensor of that size.

    Copies of modules and `torch.load(map_location="cuda")` construct their storages this way.
    """
    make = UntypedStorage.__new__

    def make_storage(cls: type, *arguments: Any, device: Any = None, **options: Any) -> Any:
        if not _is_on_device(device):
            placed = {} if device is None else {"device": device}
            return make(cls, *arguments, **placed, **options)
        if options or len(arguments) > 1 or not isinstance(arguments[0] if arguments else 0, int):
            raise TypeError("a storage of the emulated device is made from a size in bytes")
        size = arguments[0] if arguments else 0
        return torch.empty(size, dtype=torch.uint8, device=device).untyped_storage()

    UntypedStorage.__new__ = make_storage  # type: ignore[method-assign]
