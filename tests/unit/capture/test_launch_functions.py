"""Every way to launch a kernel, through the resident library on the stub."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hot_path_target import Target, arm, arm_for_capture, contents, controller, make_layout, u64

from asmevo.capture.control_block import ArgumentRole, ControlBlock, RecordStatus, State

PER_THREAD = 2


class Dim(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_int * 16))


class Config(ctypes.Structure):
    """hipLaunchConfig_t."""

    _fields_ = (
        ("grid", Dim),
        ("block", Dim),
        ("lds", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


GRID, BLOCK = Dim(2, 1, 1), Dim(64, 1, 1)
SYMBOL = ctypes.create_string_buffer(b"host stub of add_one")


def pack(*values: Any) -> Any:
    return (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))


def plain(name: str, *rest: Any) -> Callable[[Target, Any], int]:
    def launch(target: Target, params: Any) -> int:
        function = getattr(target.hip, name)
        return int(function(SYMBOL, GRID, BLOCK, params, ctypes.c_size_t(16), None, *rest))

    return launch


def with_config(target: Target, params: Any) -> int:
    attribute = Attribute(id=2)
    attribute.value[0] = 1
    config = Config(GRID, BLOCK, 16, None, ctypes.addressof(attribute), 1)
    return int(target.hip.hipLaunchKernelExC(ctypes.byref(config), SYMBOL, params))


def by_pointer(target: Target, params: Any) -> int:
    target.hip.hipConfigureCall(GRID, BLOCK, ctypes.c_size_t(16), None)
    for index, size in enumerate((8, 8, 4)):
        argument = ctypes.c_void_p(params[index])
        target.hip.hipSetupArgument(argument, ctypes.c_size_t(size), ctypes.c_size_t(8 * index))
    return int(target.hip.hipLaunchByPtr(SYMBOL))


@pytest.mark.parametrize(
    ("launch", "slot", "stream", "is_cooperative"),
    [
        (plain("hipLaunchKernel"), 214, 0, 0),
        (plain("hipLaunchKernel_spt"), 419, PER_THREAD, 0),
        (plain("hipLaunchCooperativeKernel"), 211, 0, 1),
        (plain("hipLaunchCooperativeKernel_spt"), 418, PER_THREAD, 1),
        (plain("hipExtLaunchKernel", None, None, 0), 84, 0, 0),
        (with_config, 474, 0, 1),
        (by_pointer, 210, 0, 0),
    ],
    ids=["plain", "spt", "cooperative", "cooperative spt", "ext", "ExC", "by pointer"],
)
def test_launch_of_a_host_symbol_is_captured_at_once(
    target: Target,
    launch: Callable[[Target, Any], int],
    slot: int,
    stream: int,
    is_cooperative: int,
) -> None:
    target.hip.stub_register_symbol(SYMBOL, b"add_one")
    block = target.open("add_*")
    source, result = target.allocate(b"abc"), target.allocate(b"...")
    arm(block)

    with controller(block):
        assert launch(target, pack(u64(result), u64(source), ctypes.c_uint32(3))) == 0

    record = block.fields.record
    assert record.status == RecordStatus.CAPTURED, record.reason
    assert record.name == b"add_one"
    assert record.handle not in (0, ctypes.addressof(SYMBOL))
    assert (record.launch_slot, record.stream) == (slot, stream)
    assert record.is_cooperative == is_cooperative
    assert (list(record.grid), list(record.block)) == ([2, 1, 1], [64, 1, 1])
    assert record.dynamic_lds_bytes == 16
    assert contents(target, record) == [(b"...", b"bcd"), (b"abc", b"abc")]


def test_first_launch_of_a_kernel_is_captured(target: Target) -> None:
    block = target.open("add_one")
    source, result = target.allocate(b"abc"), target.allocate(b"...")
    arm(block)

    with controller(block):
        target.launch(u64(result), u64(source), ctypes.c_uint32(3))

    assert block.fields.record.status == RecordStatus.CAPTURED
    assert block.fields.record.call == 0
    assert contents(target, block.fields.record)[0] == (b"...", b"bcd")


def test_first_launches_of_many_threads_are_captured_in_turn(target: Target) -> None:
    block = target.open("add_one", data_bytes=8 << 12)
    memory = [target.allocate(b"abc") for _ in range(4)]
    arm(block)
    taken = []

    def launch(address: int) -> None:
        target.launch(u64(address), u64(address), ctypes.c_uint32(3))

    def collect() -> None:
        if block.state is State.READY and block.fields.record.status == RecordStatus.CAPTURED:
            taken.append(int(block.fields.record.regions[0].address))
            arm(block)

    with controller(block):
        threads = [threading.Thread(target=launch, args=(address,)) for address in memory]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                collect()
                time.sleep(0.0005)
        collect()

    assert taken
    assert set(taken) <= set(memory)


def test_launch_does_not_wait_for_a_controller_that_is_gone(target: Target) -> None:
    block = target.open("add_one")
    block.fields.beat_ns = 0
    arm(block)

    target.launch(u64(0), u64(0), ctypes.c_uint32(0))  # else it would be asked about twice
    assert block.fields.record.status == RecordStatus.QUESTION
    assert block.fields.record.pause_ns < 40e6


def take(target: Target, block: ControlBlock, *arguments: Any) -> bool:
    """Launch once; whether that was captured."""
    arm(block)
    target.launch(*arguments)
    return block.state is State.READY and block.fields.record.status == RecordStatus.CAPTURED


def test_nth_and_every_choose_launches_by_number(target: Target) -> None:
    block = target.open("add_one")
    block.fields.first_call, block.fields.every = 2, 3
    arm_for_capture(target, block)

    numbers = [n for n in range(10) if take(target, block, u64(0), u64(0), ctypes.c_uint32(0))]

    assert numbers == [2, 5, 8]


def test_shapes_are_captured_once_each(target: Target) -> None:
    block = target.open("add_one")
    block.fields.takes_shapes = 1
    arm_for_capture(target, block)
    memory = target.allocate(bytes(64))

    taken = [
        take(target, block, u64(memory + offset), u64(memory), ctypes.c_uint32(count))
        for offset, count in [(0, 1), (8, 1), (0, 2), (16, 2), (0, 1), (0, 3)]
    ]

    assert taken == [True, False, True, False, False, True]  # pointers make no shape


def test_shape_whose_dispatch_was_not_kept_is_captured_again(target: Target) -> None:
    block = target.open("add_one")
    block.fields.takes_shapes = 1
    arm_for_capture(target, block)

    assert take(target, block, u64(0), u64(0), ctypes.c_uint32(0))
    block.take_back_shape(block.fields.record)

    assert take(target, block, u64(0), u64(0), ctypes.c_uint32(0))
    assert not take(target, block, u64(0), u64(0), ctypes.c_uint32(0))


def test_argument_that_varies_makes_no_shape(target: Target) -> None:
    block = target.open("add_one")
    block.fields.takes_shapes = 1
    arm_for_capture(target, block)
    layout = make_layout()
    layout.arguments[2].role = ArgumentRole.VARYING
    block.set_layout(0, layout)

    taken = [take(target, block, u64(0), u64(0), ctypes.c_uint32(0)) for _ in range(2)]

    assert taken == [True, False]


def test_without_golden_output_nothing_is_copied_after(target: Target) -> None:
    block = target.open("add_one", data_bytes=2 * 4096)
    block.fields.takes_after = 0
    source, result = target.allocate(b"abc"), target.allocate(b"...")
    arm_for_capture(target, block)

    target.launch(u64(result), u64(source), ctypes.c_uint32(3))

    record = block.fields.record
    assert record.status == RecordStatus.CAPTURED, record.reason
    assert (record.has_after, record.need_bytes) == (0, 2 * 4096)
    assert contents(target, record)[0][0] == b"..."


def test_memory_for_snapshots_is_pinned_while_it_is_there(target: Target) -> None:
    target.hip.stub_pinned.restype = ctypes.c_void_p
    target.open("add_one")
    is_pinned = target.hip.stub_pinned() is not None

    target.agent.asmevo_capture_close()

    assert is_pinned
    assert target.hip.stub_pinned() is None
