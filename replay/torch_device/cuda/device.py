"""Devices: count, current one, properties, initialization."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from typing import Any

import torch

from . import hip

__all__ = ["BINDINGS", "DeviceProperties"]

_PROPERTIES_SIZE = 1472  # hipDeviceProp_tR0600
_TEXT_SIZE = 256
_ARCH_NAME_OFFSET = 1160
# Fields of hipDeviceProp_tR0600: torch's name, offset, struct format.
_FIELDS = (
    ("major", 360, "i"),
    ("minor", 364, "i"),
    ("multi_processor_count", 388, "i"),
    ("total_memory", 288, "Q"),
    ("is_integrated", 396, "i"),
    ("is_multi_gpu_board", 632, "i"),
    ("max_threads_per_multi_processor", 624, "i"),
    ("max_threads_per_block", 320, "i"),
    ("warp_size", 308, "i"),
    ("regs_per_multiprocessor", 648, "i"),
    ("L2_cache_size", 616, "i"),
    ("clock_rate", 348, "i"),
    ("memory_clock_rate", 608, "i"),
    ("memory_bus_width", 612, "i"),
    ("shared_memory_per_block", 296, "Q"),
    ("shared_memory_per_block_optin", 696, "Q"),
    ("shared_memory_per_multiprocessor", 640, "Q"),
    ("pci_bus_id", 584, "i"),
    ("pci_device_id", 588, "i"),
    ("pci_domain_id", 592, "i"),
)

_forked = threading.Event()  # set in a child that was forked from a process with a device
_properties: dict[int, DeviceProperties] = {}


class DeviceProperties:
    """The properties of a device, under the names that torch gives them."""

    name: str
    gcnArchName: str
    uuid: str
    total_memory: int
    major: int
    minor: int
    multi_processor_count: int

    def __init__(self, raw: bytes) -> None:
        """Read hipDeviceProp_tR0600."""
        self.name = _read_text(raw, 0)
        self.gcnArchName = _read_text(raw, _ARCH_NAME_OFFSET)
        self.uuid = raw[256:272].hex()
        for name, offset, code in _FIELDS:
            (value,) = struct.unpack_from(f"={code}", raw, offset)
            setattr(self, name, value)

    def __repr__(self) -> str:
        """As torch prints it."""
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"gcnArchName='{self.gcnArchName}', total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count}, uuid={self.uuid})"
        )


def _read_text(raw: bytes, offset: int) -> str:
    return raw[offset : offset + _TEXT_SIZE].partition(b"\0")[0].decode(errors="replace")


def device_count() -> int:
    """How many devices there are; 0 without a runtime, as torch wants it."""
    count = ctypes.c_int()
    try:
        error = hip.status("hipGetDeviceCount", ctypes.byref(count))
    except OSError:
        return 0
    return count.value if error == 0 else 0


def current_device() -> int:
    """The calling thread's device."""
    index = ctypes.c_int()
    hip.call("hipGetDevice", ctypes.byref(index))
    return index.value


def set_device(index: int) -> None:
    """Make a device the calling thread's."""
    hip.call("hipSetDevice", index)


def exchange_device(index: int) -> int:
    """Make a device the calling thread's and return the one before; negative: change nothing."""
    if index < 0:
        return -1
    before = current_device()
    if before != index:
        set_device(index)
    return before


def maybe_exchange_device(index: int) -> int:
    """As exchange_device; torch.compile wants two functions."""
    return exchange_device(index)


def synchronize() -> None:
    """Wait for all work of the device; raises what a launch left behind."""
    hip.call("hipDeviceSynchronize")


def device_properties(index: int) -> DeviceProperties:
    """The properties of a device, read once."""
    if index not in _properties:
        raw = ctypes.create_string_buffer(_PROPERTIES_SIZE)
        hip.call("hipGetDevicePropertiesR0600", raw, index)
        _properties[index] = DeviceProperties(raw.raw)
    return _properties[index]


def can_access_peer(device: int, peer: int) -> bool:
    """Whether one device reaches the other's memory."""
    result = ctypes.c_int()
    hip.call("hipDeviceCanAccessPeer", ctypes.byref(result), device, peer)
    return bool(result.value)


def arch_flags() -> str:
    """The architectures that kernels may be built for: the device's own."""
    return device_properties(0).gcnArchName.partition(":")[0]


def initialize() -> None:
    """What torch's C++ side does once: makes the functions that exist only afterwards."""
    hip.call("hipInit", 0)
    if device_count() == 0:
        raise RuntimeError("No HIP GPUs are available")
    # The device's worker threads do not survive a fork, as a GPU's context does not.
    os.register_at_fork(after_in_child=_forked.set)
    cuda: Any = torch.cuda
    cuda.has_magma = False
    cuda._get_device_properties = device_properties
    # The backend's own one: operations that are given no generator draw from it.
    cuda.default_generators = (torch.ops.asmevo_device.default_generator(),)


def is_in_bad_fork() -> bool:
    """Whether this process was forked from one that used the device."""
    return _forked.is_set()


BINDINGS = {
    "_CudaDeviceProperties": DeviceProperties,
    "_cuda_canDeviceAccessPeer": can_access_peer,
    "_cuda_exchangeDevice": exchange_device,
    "_cuda_getArchFlags": arch_flags,
    "_cuda_getDevice": current_device,
    "_cuda_getDeviceCount": device_count,
    "_cuda_hasPrimaryContext": lambda index: 0 <= index < device_count(),
    "_cuda_init": initialize,
    "_cuda_isInBadFork": is_in_bad_fork,
    "_cuda_maybeExchangeDevice": maybe_exchange_device,
    "_cuda_setDevice": set_device,
    "_cuda_synchronize": synchronize,
}
