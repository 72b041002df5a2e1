"""The resident library on the stub, in this process: we are target and controller at once."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asmevo.capture.control_block import (
    CONTROL_VERSION,
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


def test_control_block_of_both_languages_is_the_same() -> None:
    offsets = [
        getattr(Control, name).offset
        for name in ("globs", "seen", "functions", "layouts", "record")
    ]

    assert offsets == [48, 16432, 81968, 180272, 1757232]  # asserted in capture_control.h
    assert ctypes.sizeof(Control) == 1796536


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

    def open(self, *globs: str, data_bytes: int = OUT_OF_BUDGET) -> ControlBlock:
        descriptor = self.agent.asmevo_capture_open(str(self.path).encode(), self.error, 256)
        if descriptor < 0:
            raise TargetError(self.error.value.decode())
        memory = map_shared(os.getpid(), descriptor, minimum_bytes=ctypes.sizeof(Control))
        block = ControlBlock(memory)
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


@pytest.fixture
def target(stub_hip: Path) -> Iterator[Target]:
    target = Target(stub_hip)
    original = target.hip.stub_slot(LAUNCH_SLOT)
    yield target
    assert target.agent.asmevo_capture_close() == 0
    assert target.hip.stub_slot(LAUNCH_SLOT) == original
    target.hip.hipGetLastError()


def make_layout() -> Layout:
    """{u64 out, u64 in, u32 n}."""
    layout = Layout(argument_count=3, kernarg_bytes=20)
    for index, (offset, size) in enumerate([(0, 8), (8, 8), (16, 4)]):
        layout.arguments[index].offset, layout.arguments[index].size = offset, size
    layout.pointers[0] = layout.pointers[1] = 1
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


def test_launch_of_an_unknown_function_asks_and_goes_on(target: Target) -> None:
    block = target.open("add_*")
    arm(block)
    source, result = target.allocate(b"abc"), target.allocate(bytes(3))

    assert target.launch(u64(result), u64(source), ctypes.c_uint32(3)) == 0

    record = block.fields.record
    assert block.state is State.READY
    assert record.status == RecordStatus.QUESTION
    assert record.name == b"add_one"
    assert list(record.attributes[:4]) == [1024, 0, 0, 0]
    assert ctypes.string_at(result, 3) == b"bcd"


def test_wanted_launch_is_captured_before_and_after(target: Target) -> None:
    block = target.open("add_one")
    source, result = target.allocate(b"abc" * 1000), target.allocate(b"." * 3000)
    arm_for_capture(target, block)

    assert target.launch(u64(result), u64(source), ctypes.c_uint32(3000), stream=0x8) == 0

    record = block.fields.record
    assert record.status == RecordStatus.CAPTURED, record.reason
    assert bytes(record.kernarg[: record.kernarg_bytes]) == struct.pack(
        "=QQI", result, source, 3000
    )
    assert (list(record.grid), list(record.block)) == ([2, 1, 1], [64, 1, 1])
    assert (record.dynamic_lds_bytes, record.stream, record.launch_slot) == (16, 8, LAUNCH_SLOT)
    assert [(r.address, r.size, r.kind) for r in record.regions[:2]] == [
        (result, 3000, 0),
        (source, 3000, 0),
    ]
    assert list(record.word_regions[:3]) == [0, 1, -1]
    assert contents(target, record) == [(b"." * 3000, b"bcd" * 1000), (b"abc" * 1000,) * 2]
    assert 0 < record.pause_ns < 10**9


def test_launch_through_a_buffer_of_arguments_is_captured(target: Target) -> None:
    block = target.open("add_one")
    source, result = target.allocate(b"abc"), target.allocate(b"...")
    arm_for_capture(target, block)
    kernarg = ctypes.create_string_buffer(struct.pack("=QQI", result, source, 3), 20)
    size = ctypes.c_size_t(20)
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(kernarg), 2, ctypes.addressof(size), 3)

    geometry = (ctypes.c_uint32(128), 1, 1, ctypes.c_uint32(64), 1, 1, ctypes.c_size_t(0))
    assert (
        target.hip.hipExtModuleLaunchKernel(
            target.function, *geometry, None, None, extra, None, None, 0
        )
        == 0
    )

    record = block.fields.record
    assert record.status == RecordStatus.CAPTURED, record.reason
    assert list(record.grid) == [2, 1, 1]  # work-items became workgroups
    assert contents(target, record) == [(b"...", b"bcd"), (b"abc", b"abc")]


def test_pointers_into_one_allocation_share_its_region(target: Target) -> None:
    block = target.open("add_one")
    memory = target.allocate(bytes(range(64)))
    arm_for_capture(target, block)

    target.launch(u64(memory + 32), u64(memory), ctypes.c_uint32(8))

    record = block.fields.record
    assert (record.region_count, list(record.word_regions[:2])) == (1, [0, 0])
    before, after = contents(target, record)[0]
    assert before == bytes(range(64))
    assert after == before[:32] + bytes(range(1, 9)) + before[40:]


def test_pointer_that_is_a_small_number_or_null_has_no_region(target: Target) -> None:
    block = target.open("add_one")
    arm_for_capture(target, block)

    target.launch(u64(1), u64(0), ctypes.c_uint32(0))

    assert block.fields.record.status == RecordStatus.CAPTURED
    assert block.fields.record.region_count == 0


@pytest.mark.parametrize("size", [64, 5000, 1 << 20], ids=["small", "heap", "mapped"])
def test_host_memory_nobody_registered_is_captured_by_its_chunk(target: Target, size: int) -> None:
    block = target.open("add_one", data_bytes=8 << 20)
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    source = libc.malloc(ctypes.c_size_t(size))
    ctypes.memset(source, 7, size)
    arm_for_capture(target, block)
    result = target.allocate(bytes(16))

    target.launch(u64(result), u64(source), ctypes.c_uint32(16))

    record = block.fields.record
    assert record.status == RecordStatus.CAPTURED, record.reason
    host = record.regions[record.word_regions[1]]
    usable = libc.malloc_usable_size(ctypes.c_void_p(source))
    assert (host.kind, host.address, host.size) == (3, source, usable)
    assert contents(target, record)[1][0][:size] == b"\x07" * size
    assert target.hip.hipGetLastError() == 0  # our questions left no trace
    libc.free(ctypes.c_void_p(source))


def test_pointer_into_the_middle_of_host_memory_is_captured_by_a_window(target: Target) -> None:
    block = target.open("add_one", data_bytes=80 << 20)
    source = mmap.mmap(-1, 40 << 20)
    address = ctypes.addressof(ctypes.c_char.from_buffer(source)) + 12345
    arm_for_capture(target, block)

    target.launch(u64(0), u64(address), ctypes.c_uint32(0))

    record = block.fields.record
    assert record.status == RecordStatus.CAPTURED, record.reason
    host = record.regions[record.word_regions[1]]
    assert host.kind == 3
    assert host.address == address & ~4095
    assert host.size == 16 << 20


def test_launch_that_needs_more_memory_goes_on_and_says_how_much(target: Target) -> None:
    block = target.open("add_one", data_bytes=4096)
    source, result = target.allocate(b"a" * 100000), target.allocate(bytes(100000))
    arm_for_capture(target, block)

    assert target.launch(u64(result), u64(source), ctypes.c_uint32(100000)) == 0
    assert block.fields.record.status == RecordStatus.NEED_SPACE
    target.reserve(block.fields.record.need_bytes)
    arm(block)
    assert target.launch(u64(result), u64(source), ctypes.c_uint32(100000)) == 0

    record = block.fields.record
    assert record.status == RecordStatus.CAPTURED
    assert contents(target, record)[0] == (b"b" * 100000, b"b" * 100000)


@pytest.mark.parametrize(
    ("count", "stream", "limit", "reason"),
    [
        (3, 0x6, 1 << 30, b"captured into a graph"),
        (0xFFFFFFFF, 0, 1 << 30, b"the launch failed with error 719"),
        (3, 0, 5, b"more than the limit of 5 bytes"),
    ],
)
def test_launch_that_cannot_be_captured_says_why_and_goes_on(
    target: Target, count: int, stream: int, limit: int, reason: bytes
) -> None:
    block = target.open("add_one")
    block.fields.max_bytes = limit
    source, result = target.allocate(b"abc"), target.allocate(bytes(3))
    arm_for_capture(target, block)
    launches = target.hip.stub_launches()

    target.launch(u64(result), u64(source), ctypes.c_uint32(count), stream=stream)

    assert block.fields.record.status == RecordStatus.REFUSED
    assert reason in block.fields.record.reason
    assert target.hip.stub_launches() == launches + 1


def test_launch_with_a_pending_error_is_left_alone(target: Target) -> None:
    block = target.open("add_one")
    arm_for_capture(target, block)
    target.hip.hipMemGetAddressRange(None, None, ctypes.c_void_p(5))

    target.launch(u64(0), u64(0), ctypes.c_uint32(0))

    assert b"error pending" in block.fields.record.reason
    assert target.hip.hipGetLastError() == 17  # still the program's


def test_launch_after_a_poll_that_was_not_ready_is_captured(target: Target) -> None:
    block = target.open("add_one")
    arm_for_capture(target, block)
    target.hip.stub_set_last_error(600)

    target.launch(u64(0), u64(0), ctypes.c_uint32(0))

    assert block.fields.record.status == RecordStatus.CAPTURED


def test_launch_of_another_kernel_passes_and_is_noted(target: Target) -> None:
    block = target.open("add_one")
    other = ctypes.c_void_p()
    target.hip.hipModuleGetFunction(ctypes.byref(other), None, b"softmax")
    arm(block)

    for _ in range(3):
        assert target.launch(u64(0), u64(0), ctypes.c_uint32(0), function=other) == 0

    assert block.state is State.ARMED
    assert block.seen_names == ("softmax",)


def test_unloading_a_module_forgets_its_functions(target: Target) -> None:
    block = target.open("add_one")
    arm_for_capture(target, block)

    target.hip.hipModuleUnload(None)
    target.launch(u64(0), u64(0), ctypes.c_uint32(0))

    assert block.fields.record.status == RecordStatus.QUESTION


def test_hooks_of_a_dead_controller_take_themselves_out(target: Target) -> None:
    original = target.hip.stub_slot(LAUNCH_SLOT)
    block = target.open("add_one")
    assert target.hip.stub_slot(LAUNCH_SLOT) != original

    block.keep_alive(-1)
    deadline = time.monotonic() + 5
    while target.hip.stub_slot(LAUNCH_SLOT) != original and time.monotonic() < deadline:
        time.sleep(0.02)

    assert target.hip.stub_slot(LAUNCH_SLOT) == original
    assert block.state is State.CLOSED


def test_second_capture_of_one_process_is_refused(target: Target) -> None:
    target.open("*")

    with pytest.raises(TargetError, match="another capture"):
        target.open("*")


def test_forked_child_has_no_hooks(target: Target) -> None:
    original = target.hip.stub_slot(LAUNCH_SLOT)
    block = target.open("add_one")
    arm_for_capture(target, block)

    child = os.fork()
    if child == 0:
        is_clean = target.hip.stub_slot(LAUNCH_SLOT) == original
        launched = target.launch(u64(0), u64(0), ctypes.c_uint32(0))
        os._exit(0 if is_clean and launched == 0 else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert block.state is State.ARMED
    assert target.hip.stub_slot(LAUNCH_SLOT) != original


def test_hooks_going_in_and_out_under_load_lose_no_launch(target: Target) -> None:
    target.hip.stub_stop_load.restype = ctypes.c_uint64
    start = target.hip.stub_launches()
    target.hip.stub_start_load(target.function, 8)
    captured = 0

    for _ in range(40):
        block = target.open("add_one", data_bytes=4 * 4096)
        arm(block)
        for _ in range(8):
            deadline = time.monotonic() + 0.2
            while block.state is not State.READY and time.monotonic() < deadline:
                time.sleep(0)
            if block.state is State.READY:
                record = block.fields.record
                captured += record.status == RecordStatus.CAPTURED
                block.set_layout(0, make_layout())
                block.answer(record, Verdict.WANTED)
                arm(block)
        assert target.agent.asmevo_capture_close() == 0
    launches = target.hip.stub_stop_load()

    assert target.hip.stub_launches() - start == launches > 0
    assert captured >= 40
