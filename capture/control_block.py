"""The memory that the hot path inside a target shares with us: `agent/capture_control.h` in Python.

The target is not trusted further than needed: what it says is bounded before it is used.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import struct
import time
from enum import IntEnum

from asmevo.errors import TargetError, UsageError

__all__ = [
    "CONTROL_VERSION",
    "MAX_ARGUMENTS",
    "MAX_KERNARG_BYTES",
    "MAX_LAYOUTS",
    "Control",
    "ControlBlock",
    "Layout",
    "Record",
    "RecordStatus",
    "State",
    "Verdict",
    "encode_globs",
    "map_shared",
]

CONTROL_VERSION = 1
MAX_GLOBS = 32
MAX_GLOB_BYTES = 512
MAX_FUNCTIONS = 4096
MAX_LAYOUTS = 512
MAX_ARGUMENTS = 256
MAX_KERNARG_BYTES = 8192
MAX_KERNARG_WORDS = MAX_KERNARG_BYTES // 8
MAX_REGIONS = 512
MAX_SEEN = 256
MAX_SEEN_BYTES = 248
MAX_NAME_BYTES = 8192
MAX_REASON_BYTES = 256

_F_GET_SEALS = 1034
_NEEDED_SEALS = 0x2 | 0x4  # shrink, grow
_STATE_OFFSET = 4
_DEADLINE_OFFSET = 16


class State(IntEnum):
    """Who owns the record."""

    CLOSED = 0
    IDLE = 1
    ARMED = 2
    BUSY = 3
    READY = 4


class RecordStatus(IntEnum):
    """What a READY record says."""

    CAPTURED = 0
    QUESTION = 1
    NEED_SPACE = 2
    REFUSED = 3


class Verdict(IntEnum):
    """What becomes of the launches of a function."""

    UNWANTED = 1
    UNKNOWN = 2
    WANTED = 3


class _Argument(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint32), ("size", ctypes.c_uint32))


class Layout(ctypes.Structure):
    """Explicit arguments of a kernel; `pointers` has a flag for each 8-byte word of the kernarg."""

    _fields_ = (
        ("argument_count", ctypes.c_uint32),
        ("kernarg_bytes", ctypes.c_uint32),
        ("arguments", _Argument * MAX_ARGUMENTS),
        ("pointers", ctypes.c_uint8 * MAX_KERNARG_WORDS),
    )


class _Seen(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint64), ("name", ctypes.c_char * MAX_SEEN_BYTES))


class _Function(ctypes.Structure):
    _fields_ = (
        ("function", ctypes.c_uint64),
        ("verdict", ctypes.c_uint64),
        ("layout", ctypes.c_uint64),
    )


class _Region(ctypes.Structure):
    _fields_ = (
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("before", ctypes.c_uint64),
        ("after", ctypes.c_uint64),
        ("kind", ctypes.c_uint64),
    )


class Record(ctypes.Structure):
    """One launch: captured, or why not."""

    _fields_ = (
        ("status", ctypes.c_uint32),
        ("launch_slot", ctypes.c_uint32),
        ("function", ctypes.c_uint64),
        ("function_index", ctypes.c_uint64),
        ("generation", ctypes.c_uint64),
        ("stream", ctypes.c_uint64),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_lds_bytes", ctypes.c_uint64),
        ("need_bytes", ctypes.c_uint64),
        ("pause_ns", ctypes.c_uint64),
        ("attributes", ctypes.c_int32 * 8),
        ("kernarg_bytes", ctypes.c_uint32),
        ("region_count", ctypes.c_uint32),
        ("name_bytes", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("reason", ctypes.c_char * MAX_REASON_BYTES),
        ("name", ctypes.c_char * MAX_NAME_BYTES),
        ("kernarg", ctypes.c_uint8 * MAX_KERNARG_BYTES),
        ("word_regions", ctypes.c_int16 * MAX_KERNARG_WORDS),
        ("regions", _Region * MAX_REGIONS),
    )


class Control(ctypes.Structure):
    """The whole block."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("state", ctypes.c_uint32),
        ("bytes", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("max_bytes", ctypes.c_uint64),
        ("generation", ctypes.c_uint64),
        ("glob_count", ctypes.c_uint32),
        ("seen_count", ctypes.c_uint32),
        ("globs", ctypes.c_char * MAX_GLOB_BYTES * MAX_GLOBS),
        ("seen", _Seen * MAX_SEEN),
        ("functions", _Function * MAX_FUNCTIONS),
        ("layouts", Layout * MAX_LAYOUTS),
        ("record", Record),
    )


def encode_globs(globs: tuple[str, ...]) -> list[bytes]:
    """Globs as the hot path reads them.

    Raises:
        UsageError: One is empty or too long, or there are too many.
    """
    encoded = [os.fsencode(glob) for glob in globs]
    if not all(encoded):
        raise UsageError("an empty glob matches no kernel", hint="'*' matches all")
    if len(encoded) > MAX_GLOBS or any(len(glob) >= MAX_GLOB_BYTES for glob in encoded):
        raise UsageError(f"more than {MAX_GLOBS} globs, or one of {MAX_GLOB_BYTES} bytes or more")
    return encoded


def map_shared(pid: int, descriptor: int, *, minimum_bytes: int) -> mmap.mmap:
    """Map a memory file of the target.

    Raises:
        TargetError: It cannot be opened, is too small, or the target could still shrink it.
    """
    path = f"/proc/{pid}/fd/{descriptor}"
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise TargetError(f"{path} cannot be opened: {error.strerror}") from error
    try:
        size = os.fstat(file).st_size
        if size < minimum_bytes or fcntl.fcntl(file, _F_GET_SEALS) & _NEEDED_SEALS != _NEEDED_SEALS:
            raise TargetError(f"{path} is not what the capture library made")
        return mmap.mmap(file, size)
    except OSError as error:
        raise TargetError(f"{path} cannot be mapped: {error.strerror}") from error
    finally:
        os.close(file)


class ControlBlock:
    """The controller's view of the shared block. Only the owner of the record may touch it."""

    def __init__(self, memory: mmap.mmap) -> None:
        """Check that the block is of our version."""
        self._memory = memory
        self.fields = Control.from_buffer(memory)
        if (self.fields.version, self.fields.bytes) != (CONTROL_VERSION, ctypes.sizeof(Control)):
            raise TargetError(
                "the target has a capture library of another asmevo version loaded",
                hint="restart the target, or capture with the version that was used before",
            )

    @property
    def state(self) -> State:
        """Who owns the record now."""
        return State(struct.unpack_from("=I", self._memory, _STATE_OFFSET)[0])

    def set_state(self, state: State) -> None:
        """Hand the record over; only from IDLE or READY, which are ours."""
        struct.pack_into("=I", self._memory, _STATE_OFFSET, state)

    def keep_alive(self, seconds: float) -> None:
        """Let the hooks live until `seconds` from now."""
        deadline = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + int(seconds * 1e9)
        struct.pack_into("=Q", self._memory, _DEADLINE_OFFSET, deadline)

    def set_globs(self, globs: tuple[str, ...]) -> None:
        """Say which kernels are wanted."""
        encoded = encode_globs(globs)
        for index, glob in enumerate(encoded):
            self.fields.globs[index].value = glob
        self.fields.glob_count = len(encoded)

    def set_layout(self, index: int, layout: Layout) -> None:
        """Store a layout for `answer` to name."""
        self.fields.layouts[index] = layout

    def answer(self, record: Record, verdict: Verdict, layout: int = 0) -> None:
        """Store the verdict on the record's function; it counts until a module is unloaded."""
        if record.function_index >= MAX_FUNCTIONS:
            raise TargetError("the target's control block is damaged")
        function = self.fields.functions[record.function_index]
        function.layout = layout
        function.verdict = record.generation << 32 | verdict

    @property
    def seen_names(self) -> tuple[str, ...]:
        """Names of kernels that were launched, long ones cut."""
        count = min(self.fields.seen_count, MAX_SEEN)
        return tuple(
            bytes(seen.name[: min(seen.length, MAX_SEEN_BYTES)]).decode(errors="replace")
            for seen in self.fields.seen[:count]
        )

    def close(self) -> None:
        """Unmap; the fields cannot be used afterwards."""
        del self.fields
        with contextlib.suppress(BufferError):  # a record is still held: it goes with its last user
            self._memory.close()
