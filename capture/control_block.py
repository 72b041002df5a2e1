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
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from asmevo.errors import TargetError, UsageError

__all__ = [
    "CONTROL_VERSION",
    "MAX_ABSENT",
    "MAX_ARGUMENTS",
    "MAX_KERNARG_BYTES",
    "MAX_LAYOUTS",
    "MAX_MEMORY_POINTERS",
    "MAX_REGIONS",
    "MAX_VARIABLES",
    "MAX_WANTED_RANGES",
    "ArgumentRole",
    "Control",
    "ControlBlock",
    "Layout",
    "Record",
    "RecordStatus",
    "State",
    "Statistics",
    "Verdict",
    "encode_globs",
    "map_shared",
]

CONTROL_VERSION = 4
MAX_GLOBS = 64
MAX_GLOB_BYTES = 1024
MAX_FUNCTIONS = 4096
MAX_NAMES = 2048
MAX_LAYOUTS = 512
MAX_ARGUMENTS = 256
MAX_KERNARG_BYTES = 8192
MAX_VARIABLES = 64
MAX_REGIONS = 4096
MAX_ABSENT = 64
MAX_WANTED_RANGES = 4096
MAX_MEMORY_POINTERS = 2048
MAX_SHAPES = 8
MAX_TAKEN_SHAPES = 8192
MAX_STATISTICS_NAME = 512
MAX_NAME_BYTES = 8192
MAX_REASON_BYTES = 256

_F_GET_SEALS = 1034
_NEEDED_SEALS = 0x2 | 0x4  # shrink, grow
_STATE_OFFSET = 4
_SHAPE_TAKEN_BACK = 1
_DEADLINE_OFFSET = 16


class State(IntEnum):
    """Who owns the record."""

    CLOSED = 0
    IDLE = 1
    ARMED = 2
    BUSY = 3
    READY = 4
    COUNTING = 5


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


class ArgumentRole(IntEnum):
    """What an argument says about the shape of a dispatch."""

    VALUE = 0
    POINTER = 1
    VARYING = 2


def _fields(**types: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(types.items())


_u16, _u32, _u64 = ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64


class _Argument(ctypes.Structure):
    _fields_ = _fields(offset=_u32, size=_u16, role=_u16)


class _Range(ctypes.Structure):
    _fields_ = _fields(address=_u64, size=_u64)


class Layout(ctypes.Structure):
    """Explicit arguments of a kernel; `pointers` has a flag for each 8-byte word of the kernarg."""

    _fields_ = _fields(
        argument_count=_u32,
        kernarg_bytes=_u32,
        variable_count=_u32,
        reserved=_u32,
        arguments=_Argument * MAX_ARGUMENTS,
        pointers=ctypes.c_uint8 * (MAX_KERNARG_BYTES // 8),
        variables=_Range * MAX_VARIABLES,
    )


class _Function(ctypes.Structure):
    _fields_ = _fields(
        function=_u64, verdict=_u64, layout=_u64, calls=_u64, due=_u64, statistics=_u64
    )


class _Shape(ctypes.Structure):
    _fields_ = _fields(
        launches=_u64, grid=_u32 * 3, block=_u32 * 3, dynamic_lds_bytes=_u32, reserved=_u32
    )


class Statistics(ctypes.Structure):
    """What was counted of the functions of one name."""

    _fields_ = _fields(
        name_hash=_u64,
        launches=_u64,
        graph_launches=_u64,
        samples=_u64,
        sampled_ns=_u64,
        shape_count=_u32,
        name_bytes=_u32,
        shapes=_Shape * MAX_SHAPES,
        name=ctypes.c_char * MAX_STATISTICS_NAME,
    )


class _Region(ctypes.Structure):
    _fields_ = _fields(
        address=_u64,
        size=_u64,
        before=_u64,
        after=_u64,
        kind=_u64,
        coherence=_u64,
        allocation=_u64,
        allocation_size=_u64,
        variable=_u64,
    )


class _WantedRange(ctypes.Structure):
    _fields_ = _fields(address=_u64, size=_u64, layout=_u64)


class _MemoryPointer(ctypes.Structure):
    _fields_ = _fields(at=_u64, value=_u64)


class Record(ctypes.Structure):
    """One launch: captured, or why not."""

    _fields_ = _fields(
        status=_u32,
        launch_slot=_u32,
        function=_u64,
        handle=_u64,
        function_index=_u64,
        generation=_u64,
        stream=_u64,
        grid=_u32 * 3,
        block=_u32 * 3,
        dynamic_lds_bytes=_u64,
        need_bytes=_u64,
        pause_ns=_u64,
        call=_u64,
        attributes=ctypes.c_int32 * 8,
        kernarg_bytes=_u32,
        region_count=_u32,
        name_bytes=_u32,
        is_cooperative=_u32,
        has_after=_u32,
        device=ctypes.c_int32,
        graph_node=ctypes.c_int32,
        memory_pointer_count=_u32,
        absent_count=_u32,
        shape=ctypes.c_int32,
        reason=ctypes.c_char * MAX_REASON_BYTES,
        name=ctypes.c_char * MAX_NAME_BYTES,
        kernarg=ctypes.c_uint8 * MAX_KERNARG_BYTES,
        pointer_regions=ctypes.c_int16 * (MAX_KERNARG_BYTES // 4),
        regions=_Region * MAX_REGIONS,
        memory_pointers=_MemoryPointer * MAX_MEMORY_POINTERS,
        absent=_Region * MAX_ABSENT,
    )


class Control(ctypes.Structure):
    """The whole block."""

    _fields_ = _fields(
        version=_u32,
        state=_u32,
        bytes=_u64,
        deadline_ns=_u64,
        beat_ns=_u64,
        max_bytes=_u64,
        generation=_u64,
        first_call=_u64,
        every=_u64,
        window_bytes=_u64,
        whole_bytes=_u64,
        scan_bytes=_u64,
        graph_launches=_u64,
        unknown_graph_launches=_u64,
        stream_captures=_u64,
        glob_count=_u32,
        takes_shapes=_u32,
        takes_after=_u32,
        takes_graphs=_u32,
        wanted_range_count=_u32,
        reserved=_u32,
        globs=ctypes.c_char * MAX_GLOB_BYTES * MAX_GLOBS,
        functions=_Function * MAX_FUNCTIONS,
        statistics=Statistics * MAX_NAMES,
        taken_shapes=_u64 * MAX_TAKEN_SHAPES,
        layouts=Layout * MAX_LAYOUTS,
        wanted_ranges=_WantedRange * MAX_WANTED_RANGES,
        record=Record,
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
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        struct.pack_into("=QQ", self._memory, _DEADLINE_OFFSET, now + int(seconds * 1e9), now)

    def set_globs(self, globs: tuple[str, ...]) -> None:
        """Say which kernels are wanted."""
        encoded = encode_globs(globs)
        for index, glob in enumerate(encoded):
            self.fields.globs[index].value = glob
        self.fields.glob_count = len(encoded)

    def set_layout(self, index: int, layout: Layout) -> None:
        """Store a layout for `answer` to name."""
        self.fields.layouts[index] = layout

    def set_wanted_ranges(self, ranges: Sequence[tuple[int, int, int]]) -> None:
        """Say which parts of large allocations are wanted: address, size, layout."""
        count = min(len(ranges), MAX_WANTED_RANGES)
        for index, (address, size, layout) in enumerate(ranges[:count]):
            self.fields.wanted_ranges[index] = _WantedRange(address, size, layout)
        self.fields.wanted_range_count = count

    def take_back_shape(self, record: Record) -> None:
        """The dispatch was not kept: another one of its shape is wanted."""
        if 0 < record.shape <= MAX_TAKEN_SHAPES:
            self.fields.taken_shapes[record.shape - 1] = _SHAPE_TAKEN_BACK

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
        return tuple(name for name, _ in self.statistics())

    def statistics(self) -> tuple[tuple[str, Statistics], ...]:
        """What was counted, by the kernel's name; copies."""
        found = []
        for index in range(MAX_NAMES):
            entry = self.fields.statistics[index]
            if entry.name_hash:
                name = bytes(entry.name)[: min(entry.name_bytes, MAX_STATISTICS_NAME)]
                found.append((name.decode(errors="replace"), Statistics.from_buffer_copy(entry)))
        return tuple(found)

    def close(self) -> None:
        """Unmap; the fields cannot be used afterwards."""
        del self.fields
        with contextlib.suppress(BufferError):  # a record is still held: it goes with its last user
            self._memory.close()
