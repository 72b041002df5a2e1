"""The resident library on the stub, in this process: we are target and controller at once."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import time

import pytest
from hot_path_target import (
    LAUNCH_SLOT,
    Target,
    arm,
    arm_for_capture,
    contents,
    make_layout,
    u64,
)

from asmevo.capture.control_block import Control, RecordStatus, State, Verdict
from asmevo.errors import TargetError


def test_control_block_of_both_languages_is_the_same() -> None:
    names = (
        *("globs", "functions", "statistics", "taken_shapes", "layouts", "wanted_ranges"),
        "record",
    )

    # Asserted in capture_control.h.
    assert [getattr(Control, name).offset for name in names] == [
        *(
            136,
            65672,
            262280,
            2064520,
            2130056,
            4235400,
            4333704,
        )
    ]
    assert ctypes.sizeof(Control) == 4686904


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
    assert list(record.pointer_regions[:5]) == [0, -1, 1, -1, -1]
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
    assert (record.region_count, list(record.pointer_regions[:3])) == (1, [0, -1, 0])
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
    host = record.regions[record.pointer_regions[2]]
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
    host = record.regions[record.pointer_regions[2]]
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
