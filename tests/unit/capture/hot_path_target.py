"""The stub with the resident library beside it: we are target and controller at once."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asmevo.capture.control_block import (
    CONTROL_VERSION,
    ArgumentRole,
    Control,
    ControlBlock,
    Layout,
    Record,
    RecordStatus,
    State,
    Verdict,
    map_shared,
)
from asmevo.errors import TargetError
from asmevo.native import capture_library

LAUNCH_SLOT = 308
OUT_OF_BUDGET = 1 << 20


class Target:
    """The stub with the capture library beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hip = ctypes.CDLL(str(path))
        self.hip.stub_slot.restype = ctypes.c_void_p
        self.hip.stub_launches.restype = ctypes.c_uint64
        self.agent = ctypes.CDLL(str(capture_library()))
        assert self.agent.asmevo_capture_version() == CONTROL_VERSION
        self.error = ctypes.create_string_buffer(256)
        self.function = ctypes.c_void_p()
        self.hip.hipModuleGetFunction(ctypes.byref(self.function), None, b"add_one")
        self.data: mmap.mmap | None = None
        self.block: ControlBlock

    def open(self, *globs: str, data_bytes: int = OUT_OF_BUDGET) -> ControlBlock:
        descriptor = self.agent.asmevo_capture_open(str(self.path).encode(), self.error, 256)
        if descriptor < 0:
            raise TargetError(self.error.value.decode())
        memory = map_shared(os.getpid(), descriptor, minimum_bytes=ctypes.sizeof(Control))
        block = self.block = ControlBlock(memory)
        block.set_globs(globs)
        block.fields.max_bytes = 1 << 30
        block.keep_alive(60)
        self.reserve(data_bytes)
        assert self.agent.asmevo_capture_hook(self.error, 256) > 0
        return block

    def reserve(self, size: int) -> None:
        descriptor = self.agent.asmevo_capture_reserve(ctypes.c_uint64(size), self.error, 256)
        assert descriptor >= 0, self.error.value
        self.data = map_shared(os.getpid(), descriptor, minimum_bytes=size)

    def allocate(self, content: bytes) -> int:
        pointer = ctypes.c_void_p()
        assert self.hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(len(content))) == 0
        assert pointer.value
        ctypes.memmove(pointer, content, len(content))
        return pointer.value

    def launch(self, *arguments: Any, stream: int = 0, function: Any = None) -> int:
        params = (ctypes.c_void_p * len(arguments))(
            *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in arguments)
        )
        geometry = (ctypes.c_uint(2), 1, 1, ctypes.c_uint(64), 1, 1, ctypes.c_uint(16))
        return int(
            self.hip.hipModuleLaunchKernel(
                function or self.function, *geometry, ctypes.c_void_p(stream), params, None
            )
        )


def make_layout() -> Layout:
    """{u64 out, u64 in, u32 n}."""
    layout = Layout(argument_count=3, kernarg_bytes=20)
    for index, (offset, size) in enumerate([(0, 8), (8, 8), (16, 4)]):
        layout.arguments[index].offset, layout.arguments[index].size = offset, size
    layout.pointers[0] = layout.pointers[1] = 1
    layout.arguments[0].role = layout.arguments[1].role = ArgumentRole.POINTER
    return layout


def arm(block: ControlBlock) -> None:
    block.set_state(State.ARMED)


def arm_for_capture(target: Target, block: ControlBlock) -> None:
    """Answer the question that the first launch raises, so that the next one is captured."""
    arm(block)
    assert target.launch(u64(0), u64(0), ctypes.c_uint32(0)) == 0
    assert (block.state, block.fields.record.status) == (State.READY, RecordStatus.QUESTION)
    block.set_layout(0, make_layout())
    block.answer(block.fields.record, Verdict.WANTED)
    arm(block)


def u64(value: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(value)


def contents(target: Target, record: Record) -> list[tuple[bytes, bytes]]:
    assert target.data is not None
    return [
        (target.data[r.before : r.before + r.size], target.data[r.after : r.after + r.size])
        for r in record.regions[: record.region_count]
    ]


@contextmanager
def controller(block: ControlBlock) -> Iterator[None]:
    """Answers the questions of launching threads, as asmevo does from outside."""
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            record = block.fields.record
            if block.state is State.READY and record.status == RecordStatus.QUESTION:
                block.answer(record, Verdict.WANTED)
                block.set_state(State.ARMED)
            time.sleep(0.0005)

    block.set_layout(0, make_layout())
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
