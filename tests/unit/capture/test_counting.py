"""Counting launches, through the resident library on the stub."""

from __future__ import annotations

import ctypes
import time

from hot_path_target import Target, u64

from asmevo.capture.control_block import State, Statistics


def counted(target: Target, name: str, *, samples: int = 0) -> Statistics:
    deadline = time.monotonic() + 5
    while True:
        found = dict(target.block.statistics())[name]
        if found.samples >= samples or time.monotonic() > deadline:
            return found
        time.sleep(0.01)


def test_launches_are_counted_by_name_and_shape_and_some_are_timed(target: Target) -> None:
    block = target.open("none")
    block.set_state(State.COUNTING)
    other = ctypes.c_void_p()
    target.hip.hipModuleGetFunction(ctypes.byref(other), None, b"softmax")
    memory = target.allocate(bytes(64))

    for _ in range(40):
        target.launch(u64(memory), u64(memory), ctypes.c_uint32(1))
    target.launch(u64(0), u64(0), ctypes.c_uint32(0), function=other)

    add_one = counted(target, "add_one", samples=6)
    assert add_one.launches == 40
    assert add_one.samples == 4 + 2  # the first ones, then one in sixteen
    assert add_one.sampled_ns > 0
    assert add_one.shape_count == 1
    shape = add_one.shapes[0]
    assert (list(shape.grid), list(shape.block), shape.dynamic_lds_bytes, shape.launches) == (
        [2, 1, 1],
        [64, 1, 1],
        16,
        40,
    )
    assert counted(target, "softmax").launches == 1


def test_launches_into_a_captured_stream_are_not_timed(target: Target) -> None:
    target.open("none").set_state(State.COUNTING)

    for _ in range(8):
        target.launch(u64(0), u64(0), ctypes.c_uint32(0), stream=6)
    time.sleep(0.1)

    assert (counted(target, "add_one").launches, counted(target, "add_one").samples) == (8, 0)


def test_counting_ends_with_the_session(target: Target) -> None:
    block = target.open("none")
    block.set_state(State.COUNTING)

    assert target.agent.asmevo_capture_close() == 0
    target.launch(u64(0), u64(0), ctypes.c_uint32(0))

    assert block.statistics() == ()
