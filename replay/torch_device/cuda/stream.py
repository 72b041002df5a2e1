"""Streams and events: real hipStream_t and hipEvent_t handles.

A stream's id in torch is its handle. Which stream is current is kept by torch's C++ side (the
device guard of the backend), so that operations there and launches of Triton see the same one.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Self

import torch
from torch import _C  # torch itself is not complete yet when this is imported

from . import hip
from .device import current_device
from .refusal import NotCoveredError

__all__ = ["BINDINGS", "EventBase", "StreamBase", "current_handle"]

_CUDA = 1  # c10::DeviceType::CUDA
_NON_BLOCKING = 1  # hipStreamNonBlocking
_NOT_READY = 600  # hipErrorNotReady
_POOL_SIZE = 32  # streams of one priority, given out in turns, as torch does

_pool_lock = threading.Lock()
_pools: dict[int, list[int]] = {}
_given: dict[int, int] = {}


def _priority_range() -> tuple[int, int]:
    least, greatest = ctypes.c_int(), ctypes.c_int()
    hip.call("hipDeviceGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
    return least.value, greatest.value


def _take_from_pool(priority: int) -> int:
    """A stream of that priority; like torch's, it lives as long as the process."""
    least, greatest = _priority_range()
    level = max(greatest, min(least, priority))
    with _pool_lock:
        pool = _pools.setdefault(level, [])
        turn = _given.get(level, 0)
        _given[level] = turn + 1
        if len(pool) < _POOL_SIZE:
            handle = ctypes.c_void_p()
            hip.call("hipStreamCreateWithPriority", ctypes.byref(handle), _NON_BLOCKING, level)
            pool.append(handle.value or 0)
        return pool[turn % _POOL_SIZE]


class StreamBase(_C.Stream):
    """What torch.cuda.Stream is derived from."""

    def __new__(
        cls,
        priority: int = 0,
        stream_id: int = 0,
        device_index: int = 0,
        device_type: int = 0,
        stream_ptr: int = 0,
    ) -> Self:
        """A stream of the pool, the stream of an id, or one that was made elsewhere."""
        torch.cuda.init()  # type: ignore[no-untyped-call]
        is_named = stream_id or device_index or device_type
        if not is_named:
            device_index = current_device()
            stream_id = stream_ptr or _take_from_pool(priority)
        made: Self = super().__new__(
            cls, stream_id=stream_id, device_index=device_index, device_type=_CUDA
        )
        return made

    @property
    def cuda_stream(self) -> int:
        """The hipStream_t."""
        return self.stream_id

    @property
    def priority(self) -> int:
        """The priority as HIP knows it."""
        value = ctypes.c_int()
        hip.call("hipStreamGetPriority", ctypes.c_void_p(self.stream_id), ctypes.byref(value))
        return value.value

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority."""
        return _priority_range()

    def query(self) -> bool:
        """Whether all its work is done."""
        error = hip.status("hipStreamQuery", ctypes.c_void_p(self.stream_id))
        if error != _NOT_READY:
            hip.check("hipStreamQuery", error)
        return error == 0

    def synchronize(self) -> None:
        """Wait for its work."""
        hip.call("hipStreamSynchronize", ctypes.c_void_p(self.stream_id))


class EventBase(_C.Event):
    """What torch.cuda.Event is derived from; the hipEvent_t is made when it is first recorded."""

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Self:
        """An event that is not yet recorded."""
        if interprocess:
            raise NotCoveredError("torch.cuda.Event(interprocess=True)")
        if external:
            raise NotCoveredError("torch.cuda.Event(external=True)")
        made: Self = super().__new__(
            cls, torch.device("cuda"), enable_timing=enable_timing, blocking=blocking
        )
        return made

    @classmethod
    def from_ipc_handle(cls, device: Any, ipc_handle: bytes) -> Self:
        """Not covered."""
        raise NotCoveredError("torch.cuda.Event.from_ipc_handle")

    def ipc_handle(self) -> bytes:
        """Not covered."""
        raise NotCoveredError("torch.cuda.Event.ipc_handle")

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds of the host between two recorded events."""
        milliseconds = ctypes.c_float()
        events = ctypes.c_void_p(self.event_id), ctypes.c_void_p(end_event.event_id)
        hip.call("hipEventElapsedTime", ctypes.byref(milliseconds), *events)
        return milliseconds.value

    @property
    def cuda_event(self) -> int:
        """The hipEvent_t; 0 while nothing was recorded."""
        handle: int = self.event_id
        return handle


def current_handle(device: int | None = None) -> int:
    """The hipStream_t that is current in this thread."""
    stream: torch.Stream = _C._accelerator_getStream(
        current_device() if device is None or device < 0 else device
    )
    return stream.stream_id


def _describe(handle: int, device: int) -> tuple[int, int, int]:
    return handle, (current_device() if device < 0 else device), _CUDA


def current_stream(device: int) -> tuple[int, int, int]:
    """Id, device and device type of the current stream."""
    return _describe(current_handle(device), device)


def default_stream(device: int) -> tuple[int, int, int]:
    """Id, device and device type of the null stream."""
    return _describe(0, device)


def stream_from_external(handle: int, device: int) -> tuple[int, int, int]:
    """Id, device and device type of a stream that was made elsewhere."""
    return _describe(handle, device)


def set_stream(stream_id: int, device_index: int, device_type: int) -> None:
    """Make a stream, and its device, the calling thread's."""
    _C._accelerator_setStream(
        _C.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
    )


BINDINGS = {
    "_CudaEventBase": EventBase,
    "_CudaStreamBase": StreamBase,
    "_cuda_getCurrentRawStream": current_handle,
    "_cuda_getCurrentStream": current_stream,
    "_cuda_getDefaultStream": default_stream,
    "_cuda_getStreamFromExternal": stream_from_external,
    "_cuda_setStream": set_stream,
}
