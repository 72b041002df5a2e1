"""The list of loaded code objects, read from this very process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from asmevo.capture.loaded_objects import LoadedObjects
from asmevo.capture.target_process import ProcessMemory
from asmevo.errors import TargetError


class LinkMap(ctypes.Structure):
    _fields_ = (
        ("bias", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("dynamic", ctypes.c_uint64),
        ("next", ctypes.c_uint64),
        ("previous", ctypes.c_uint64),
    )


class Debug(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("breakpoint", ctypes.c_uint64),
        ("state", ctypes.c_int),
        ("base", ctypes.c_uint64),
    )


class FakeList:
    """An `_amdgpu_r_debug` in our own memory."""

    def __init__(self, uris: Sequence[str]) -> None:
        self.debug = Debug(version=10)
        self.maps = [
            LinkMap(bias=0x1000 * (i + 1), name=uri.encode()) for i, uri in enumerate(uris)
        ]
        addresses = [ctypes.addressof(entry) for entry in self.maps]
        for entry, following in zip(self.maps, addresses[1:], strict=False):
            entry.next = following
        self.debug.first = addresses[0] if addresses else 0


@pytest.fixture
def memory() -> Iterator[ProcessMemory]:
    memory = ProcessMemory(os.getpid())
    yield memory
    memory.close()


def open_list(memory: ProcessMemory, fake: FakeList) -> LoadedObjects:
    return LoadedObjects(memory, [ctypes.addressof(fake.debug)])


def in_memory(image: ctypes.Array[ctypes.c_char]) -> str:
    return f"memory://{os.getpid()}#offset={ctypes.addressof(image):#x}&size={len(image)}"


def test_kernels_in_memory_and_in_files_are_found(
    memory: ProcessMemory, scale_objects: tuple[bytes, bytes], tmp_path: Path
) -> None:
    first, second = scale_objects
    image = ctypes.create_string_buffer(first, len(first))
    file = tmp_path / "with space.co"
    file.write_bytes(b"#" * 64 + second)
    uri = f"file://{tmp_path}/with%20space.co#offset=64&size={len(second)}"
    fake = FakeList([in_memory(image), uri, f"file://{tmp_path}/with%20space.co?offset=64"])

    found = open_list(memory, fake).find_kernels("scale")

    assert [one.code_object.data for one in found] == [first, second, second]
    assert [one.load_bias for one in found] == [0x1000, 0x2000, 0x3000]
    assert found[0].descriptor_address == 0x1000 + found[0].kernel.descriptor_address


def test_kernel_nobody_loaded_is_not_found(
    memory: ProcessMemory, scale_objects: tuple[bytes, bytes]
) -> None:
    image = ctypes.create_string_buffer(scale_objects[0], len(scale_objects[0]))

    assert open_list(memory, FakeList([in_memory(image)])).find_kernels("softmax") == ()
    assert open_list(memory, FakeList([])).find_kernels("scale") == ()


def test_entries_that_cannot_be_read_are_left_out(
    memory: ProcessMemory, scale_objects: tuple[bytes, bytes]
) -> None:
    image = ctypes.create_string_buffer(scale_objects[0], len(scale_objects[0]))
    garbage = ctypes.create_string_buffer(b"scale" * 100)
    fake = FakeList(
        [
            "memory://1#offset=0x10&size=100",
            "memory://1#offset=zero&size=100",
            f"memory://1#offset=0x10000&size={1 << 40}",
            "file:///no/such/file#offset=0&size=5",
            "http://example.com/",
            "",
            in_memory(garbage),
            in_memory(image),
        ]
    )

    found = open_list(memory, fake).find_kernels("scale")

    assert [one.load_bias for one in found] == [0x8000]


def test_list_that_is_changing_for_ever_is_refused(memory: ProcessMemory) -> None:
    fake = FakeList([])
    fake.debug.state = 1

    with pytest.raises(TargetError, match="cannot be read"):
        open_list(memory, fake).find_kernels("scale")


def test_list_without_an_end_is_refused(memory: ProcessMemory) -> None:
    fake = FakeList(["memory://1#offset=0&size=0"])
    fake.maps[0].next = fake.debug.first

    with pytest.raises(TargetError, match="cannot be read"):
        open_list(memory, fake).find_kernels("scale")


def test_object_in_place_of_an_unloaded_one_is_read_once_that_is_known(
    memory: ProcessMemory, scale_objects: tuple[bytes, bytes]
) -> None:
    first, second = scale_objects
    image = ctypes.create_string_buffer(first, max(len(first), len(second)))
    fake = FakeList([in_memory(image)])
    objects = open_list(memory, fake)
    objects.read_ahead(10)
    ctypes.memmove(image, second, len(second))

    before = objects.find_kernels("scale")
    objects.forget()
    after = objects.find_kernels("scale")

    assert [one.code_object.data for one in before] == [first]
    assert [one.code_object.data for one in after] == [second]
