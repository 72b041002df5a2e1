from __future__ import annotations

import ctypes
import mmap

import pytest

from asmevo.replay.address_hold import AddressTakenError, find_holder, map_at, unmap

_SIZE = 4 * mmap.PAGESIZE


def _free_address() -> int:
    """An address where this process has nothing mapped."""
    with mmap.mmap(-1, _SIZE) as area:
        view = ctypes.c_char.from_buffer(area)
        address = ctypes.addressof(view)
        del view
    return address


def test_map_at_free_address_gives_zeroed_memory_there() -> None:
    address = _free_address()

    map_at(address, _SIZE, accessible=True)
    try:
        assert ctypes.string_at(address, _SIZE) == bytes(_SIZE)
    finally:
        unmap(address, _SIZE)


def test_map_at_taken_address_names_the_holder_and_leaves_it_alone() -> None:
    with mmap.mmap(-1, _SIZE) as area:
        area[:4] = b"mine"
        view = ctypes.c_char.from_buffer(area)
        address = ctypes.addressof(view)
        del view

        with pytest.raises(AddressTakenError, match=f"0x{address:x} .* is taken by "):
            map_at(address, _SIZE, accessible=True)

        assert area[:4] == b"mine"


def test_map_at_inaccessible_range_keeps_others_away() -> None:
    address = _free_address()
    map_at(address, _SIZE, accessible=False)

    try:
        with pytest.raises(AddressTakenError):
            map_at(address + mmap.PAGESIZE, mmap.PAGESIZE, accessible=True)
    finally:
        unmap(address, _SIZE)


def test_holder_of_unmapped_range_is_nothing() -> None:
    assert find_holder(mmap.PAGESIZE, mmap.PAGESIZE) == "no mapping of this process"
