"""Telling apart loaded kernels of one name, by function objects in our own memory."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

import pytest

from asmevo.capture.kernel_layout import make_layout
from asmevo.capture.kernel_locator import MAX_THREADS, REGISTERS, locate_kernel
from asmevo.capture.loaded_objects import LoadedKernel
from asmevo.capture.target_process import ProcessMemory
from asmevo.codeobject.code_object import CodeObject
from asmevo.errors import CaptureError

BIASES = (0x7100_0000_0000, 0x7200_0000_0000)
Words = ctypes.c_uint64 * 32


@pytest.fixture
def memory() -> Iterator[ProcessMemory]:
    memory = ProcessMemory(os.getpid())
    yield memory
    memory.close()


@pytest.fixture
def candidates(scale_objects: tuple[bytes, bytes]) -> list[LoadedKernel]:
    objects = [CodeObject.read(data) for data in scale_objects]
    return [
        LoadedKernel(code_object=one, kernel=one.kernels[0], load_bias=bias)
        for one, bias in zip(objects, BIASES, strict=True)
    ]


def locate(
    candidates: list[LoadedKernel],
    memory: ProcessMemory,
    function: ctypes.Array[ctypes.c_uint64],
    attributes: dict[int, int] | None = None,
) -> LoadedKernel:
    return locate_kernel(
        candidates,
        function=ctypes.addressof(function),
        attributes=attributes or {},
        memory=memory,
    )


def test_only_kernel_of_the_name_is_it(
    candidates: list[LoadedKernel], memory: ProcessMemory
) -> None:
    assert locate(candidates[:1], memory, Words()) is candidates[0]


def test_one_object_loaded_twice_is_one(
    candidates: list[LoadedKernel], memory: ProcessMemory
) -> None:
    assert locate([candidates[0], candidates[0]], memory, Words()) is candidates[0]


@pytest.mark.parametrize("index", [0, 1])
def test_descriptor_address_in_the_function_object_decides(
    candidates: list[LoadedKernel], memory: ProcessMemory, index: int
) -> None:
    function = Words()
    function[7] = candidates[index].descriptor_address

    assert locate(candidates, memory, function) is candidates[index]


def test_descriptor_address_two_steps_away_decides(
    candidates: list[LoadedKernel], memory: ProcessMemory
) -> None:
    function, kernel, device_kernel = Words(), Words(), Words()
    function[3] = ctypes.addressof(kernel)
    kernel[0] = 5
    kernel[9] = ctypes.addressof(device_kernel)
    device_kernel[2] = candidates[1].descriptor_address

    assert locate(candidates, memory, function) is candidates[1]


def test_neighbour_on_the_heap_does_not_confuse(
    candidates: list[LoadedKernel], memory: ProcessMemory
) -> None:
    function = Words()
    function[7] = candidates[1].descriptor_address
    function[20] = candidates[0].descriptor_address  # of an object behind this one

    assert locate(candidates, memory, function) is candidates[1]


def test_function_object_that_names_both_is_refused(
    candidates: list[LoadedKernel], memory: ProcessMemory
) -> None:
    function = Words()
    function[1], function[2] = (one.descriptor_address for one in candidates)

    with pytest.raises(CaptureError, match="2 loaded code objects define it"):
        locate(candidates, memory, function)


def test_function_object_that_names_none_is_refused(
    candidates: list[LoadedKernel], memory: ProcessMemory
) -> None:
    function = Words()
    function[1], function[2], function[3] = 0x10, 1 << 46, ctypes.addressof(function)

    with pytest.raises(CaptureError, match="does not tell"):
        locate(candidates, memory, function)


def test_name_nobody_defines_is_refused(memory: ProcessMemory) -> None:
    with pytest.raises(CaptureError, match="no loaded code object defines it"):
        locate([], memory, Words())


def test_attributes_that_fit_one_kernel_decide(
    candidates: list[LoadedKernel], memory: ProcessMemory, scale_wide: LoadedKernel
) -> None:
    attributes = {MAX_THREADS: 256, REGISTERS: -1}

    assert locate([candidates[0], scale_wide], memory, Words(), attributes) is scale_wide


def test_layout_has_explicit_arguments_and_flags_pointers(candidates: list[LoadedKernel]) -> None:
    layout = make_layout(candidates[0])

    assert (layout.argument_count, layout.kernarg_bytes) == (3, 20)
    assert [(a.offset, a.size) for a in layout.arguments[:3]] == [(0, 8), (8, 8), (16, 4)]
    assert list(layout.pointers[:3]) == [1, 1, 0]
