"""Allocation, copies, virtual memory and pointers of the emulated device."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY = 0, 1, 2
ALREADY_REGISTERED, NOT_REGISTERED = 712, 713
PAGE = 4096
FIXED_ADDRESS = 0x7A0000000000

size_t = ctypes.c_size_t


class AccessDescription(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int), ("flags", ctypes.c_int))


class AllocationProperties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_uint32 * 2),
    )


DEVICE_MEMORY = AllocationProperties(type=1, location_type=1)


def allocate(hip: ctypes.CDLL, size: int) -> ctypes.c_void_p:
    pointer = ctypes.c_void_p()
    assert hip.hipMalloc(ctypes.byref(pointer), size_t(size)) == SUCCESS
    return pointer


def offset(pointer: ctypes.c_void_p, count: int) -> ctypes.c_void_p:
    assert pointer.value is not None
    return ctypes.c_void_p(pointer.value + count)


@pytest.fixture
def block(hip_library: ctypes.CDLL) -> Iterator[ctypes.c_void_p]:
    pointer = allocate(hip_library, 1000)
    yield pointer
    assert hip_library.hipFree(pointer) == SUCCESS


@pytest.fixture
def fixed_mapping(hip_library: ctypes.CDLL) -> Iterator[ctypes.c_void_p]:
    """Two pages of device memory, readable and writable, at FIXED_ADDRESS."""
    base, handle, size = ctypes.c_void_p(), ctypes.c_void_p(), size_t(2 * PAGE)
    hip = hip_library
    wanted = ctypes.c_void_p(FIXED_ADDRESS)
    assert hip.hipMemAddressReserve(ctypes.byref(base), size, size_t(0), wanted, 0) == SUCCESS
    assert hip.hipMemCreate(ctypes.byref(handle), size, ctypes.byref(DEVICE_MEMORY), 0) == SUCCESS
    assert hip.hipMemMap(base, size, size_t(0), handle, 0) == SUCCESS
    access = AccessDescription(type=1, id=0, flags=3)
    assert hip.hipMemSetAccess(base, size, ctypes.byref(access), size_t(1)) == SUCCESS
    yield base
    assert hip.hipMemUnmap(base, size) == SUCCESS
    assert hip.hipMemRelease(handle) == SUCCESS
    assert hip.hipMemAddressFree(base, size) == SUCCESS


def test_malloc_copies_round_trip(hip_library: ctypes.CDLL, block: ctypes.c_void_p) -> None:
    data = bytes(range(250)) * 4
    back = ctypes.create_string_buffer(1000)
    other = allocate(hip_library, 1000)

    assert hip_library.hipMemcpy(block, data, size_t(1000), HOST_TO_DEVICE) == SUCCESS
    assert hip_library.hipMemcpy(other, block, size_t(1000), DEVICE_TO_DEVICE) == SUCCESS
    assert hip_library.hipMemcpy(back, other, size_t(1000), DEVICE_TO_HOST) == SUCCESS

    assert back.raw == data
    assert hip_library.hipFree(other) == SUCCESS


def test_copy_beyond_requested_size_is_refused(
    hip_library: ctypes.CDLL, block: ctypes.c_void_p
) -> None:
    data = bytes(2000)

    assert hip_library.hipMemcpy(block, data, size_t(1001), HOST_TO_DEVICE) == INVALID_VALUE
    assert hip_library.hipMemset(offset(block, 999), 0, size_t(2)) == INVALID_VALUE
    assert hip_library.hipMemset(offset(block, 999), 0, size_t(1)) == SUCCESS


def test_allocations_are_apart_by_a_guard_page(hip_library: ctypes.CDLL) -> None:
    first, second = allocate(hip_library, PAGE), allocate(hip_library, PAGE)
    assert first.value is not None
    assert second.value is not None

    assert abs(second.value - first.value) >= 2 * PAGE

    hip_library.hipFree(first)
    hip_library.hipFree(second)


def test_free_twice_is_refused(hip_library: ctypes.CDLL) -> None:
    pointer = allocate(hip_library, 64)

    assert hip_library.hipFree(pointer) == SUCCESS
    assert hip_library.hipFree(pointer) == INVALID_VALUE
    assert hip_library.hipFree(None) == SUCCESS


def test_malloc_beyond_memory_is_out_of_memory(hip_library: ctypes.CDLL) -> None:
    pointer = ctypes.c_void_p()

    assert hip_library.hipMalloc(ctypes.byref(pointer), size_t(1 << 60)) == OUT_OF_MEMORY
    assert pointer.value is None


def test_memset_d32_fills_words(hip_library: ctypes.CDLL, block: ctypes.c_void_p) -> None:
    back = (ctypes.c_uint32 * 250)()

    assert hip_library.hipMemsetD32(block, 0x01020304, size_t(250)) == SUCCESS
    assert hip_library.hipMemcpy(back, block, size_t(1000), DEVICE_TO_HOST) == SUCCESS

    assert list(back) == [0x01020304] * 250


def test_copy_2d_keeps_the_pitches(hip_library: ctypes.CDLL, block: ctypes.c_void_p) -> None:
    data = bytes(range(60))
    back = ctypes.create_string_buffer(60)
    hip_library.hipMemset(block, 0xEE, size_t(1000))

    to_device = (block, size_t(100), data, size_t(20), size_t(20), size_t(3), HOST_TO_DEVICE)
    assert hip_library.hipMemcpy2D(*to_device) == SUCCESS
    hip_library.hipMemcpy(back, offset(block, 200), size_t(60), DEVICE_TO_HOST)

    assert back.raw == data[40:60] + b"\xee" * 40


class PitchedPointer(ctypes.Structure):
    _fields_ = (
        ("pointer", ctypes.c_void_p),
        ("pitch", size_t),
        ("width", size_t),
        ("height", size_t),
    )


class Copy3D(ctypes.Structure):
    _fields_ = (
        ("from_array", ctypes.c_void_p),
        ("from_position", size_t * 3),
        ("source", PitchedPointer),
        ("to_array", ctypes.c_void_p),
        ("to_position", size_t * 3),
        ("target", PitchedPointer),
        ("extent", size_t * 3),
        ("kind", ctypes.c_int),
    )


def test_copy_3d_moves_a_box(hip_library: ctypes.CDLL, block: ctypes.c_void_p) -> None:
    data = ctypes.create_string_buffer(bytes(range(60)), 60)
    source = PitchedPointer(ctypes.addressof(data), 5, 5, 4)  # 5 x 4 x 3
    target = PitchedPointer(block.value, 10, 10, 10)
    back = ctypes.create_string_buffer(1000)
    hip_library.hipMemset(block, 0, size_t(1000))
    box = {"from_position": (1, 2, 0), "to_position": (3, 0, 7), "extent": (2, 2, 3)}

    copy = Copy3D(source=source, target=target, kind=HOST_TO_DEVICE, **box)
    assert hip_library.hipMemcpy3D(ctypes.byref(copy)) == SUCCESS
    hip_library.hipMemcpy(back, block, size_t(1000), DEVICE_TO_HOST)

    expected = bytearray(1000)
    for z in range(3):
        for y in range(2):
            for x in range(2):
                place = 3 + x + 10 * (y + 10 * (7 + z))
                expected[place] = 1 + x + 5 * (2 + y + 4 * z)
    assert back.raw == bytes(expected)


def test_copy_3d_beyond_the_allocation_is_refused(
    hip_library: ctypes.CDLL, block: ctypes.c_void_p
) -> None:
    data = ctypes.create_string_buffer(60)
    source = PitchedPointer(ctypes.addressof(data), 5, 5, 4)
    target = PitchedPointer(block.value, 10, 10, 10)
    box = {"to_position": (3, 0, 8), "extent": (2, 2, 3)}

    copy = Copy3D(source=source, target=target, kind=HOST_TO_DEVICE, **box)

    assert hip_library.hipMemcpy3D(ctypes.byref(copy)) == INVALID_VALUE


def test_memory_info_counts_allocations(hip_library: ctypes.CDLL) -> None:
    free, total, after = size_t(), size_t(), size_t()
    hip_library.hipMemGetInfo(ctypes.byref(free), ctypes.byref(total))

    pointer = allocate(hip_library, 1 << 20)
    hip_library.hipMemGetInfo(ctypes.byref(after), ctypes.byref(total))

    assert free.value - after.value == 1 << 20
    hip_library.hipFree(pointer)


def test_address_range_is_exactly_what_was_asked(
    hip_library: ctypes.CDLL, block: ctypes.c_void_p
) -> None:
    base, size = ctypes.c_void_p(), size_t()

    status = hip_library.hipMemGetAddressRange(
        ctypes.byref(base), ctypes.byref(size), offset(block, 500)
    )

    assert (status, base.value, size.value) == (SUCCESS, block.value, 1000)


def test_pointer_attribute_gives_a_device_pointer_for_mapped_memory_only(
    hip_library: ctypes.CDLL, block: ctypes.c_void_p
) -> None:
    host = ctypes.create_string_buffer(64)
    out = ctypes.c_void_p()

    for pointer in (offset(block, 8), ctypes.c_void_p(ctypes.addressof(host))):
        assert hip_library.hipPointerGetAttribute(ctypes.byref(out), 3, pointer) == SUCCESS
        assert out.value == pointer.value
    for other in (None, ctypes.c_void_p(8), offset(block, 1000)):
        assert hip_library.hipPointerGetAttribute(ctypes.byref(out), 3, other) == INVALID_VALUE


def test_pointer_attribute_of_unmapped_host_memory_is_refused(hip_library: ctypes.CDLL) -> None:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    page = ctypes.c_void_p(libc.mmap(None, size_t(PAGE), 3, 0x22, -1, 0))
    out = ctypes.c_void_p()
    assert hip_library.hipPointerGetAttribute(ctypes.byref(out), 3, page) == SUCCESS

    libc.munmap(page, size_t(PAGE))

    assert hip_library.hipPointerGetAttribute(ctypes.byref(out), 3, page) == INVALID_VALUE


def test_host_register_twice_and_unregister_twice_are_refused(hip_library: ctypes.CDLL) -> None:
    host = ctypes.create_string_buffer(64)

    assert hip_library.hipHostRegister(host, size_t(64), 0) == SUCCESS
    assert hip_library.hipHostRegister(host, size_t(8), 0) == ALREADY_REGISTERED
    assert hip_library.hipHostUnregister(host) == SUCCESS
    assert hip_library.hipHostUnregister(host) == NOT_REGISTERED


def test_virtual_memory_stands_at_the_requested_address(
    hip_library: ctypes.CDLL, fixed_mapping: ctypes.c_void_p
) -> None:
    assert fixed_mapping.value == FIXED_ADDRESS
    data = bytes(range(256)) * 32
    back = ctypes.create_string_buffer(2 * PAGE)

    assert hip_library.hipMemcpy(fixed_mapping, data, size_t(2 * PAGE), HOST_TO_DEVICE) == SUCCESS
    assert hip_library.hipMemcpy(back, fixed_mapping, size_t(2 * PAGE), DEVICE_TO_HOST) == SUCCESS

    assert back.raw == data
    beyond = offset(fixed_mapping, PAGE)
    assert hip_library.hipMemset(beyond, 0, size_t(PAGE + 1)) == INVALID_VALUE


def test_reserve_at_a_taken_address_gives_another(
    hip_library: ctypes.CDLL, fixed_mapping: ctypes.c_void_p
) -> None:
    other = ctypes.c_void_p()

    status = hip_library.hipMemAddressReserve(
        ctypes.byref(other), size_t(PAGE), size_t(0), fixed_mapping, 0
    )

    assert status == SUCCESS
    assert other.value != fixed_mapping.value
    assert hip_library.hipMemAddressFree(other, size_t(PAGE)) == SUCCESS


def test_reserved_addresses_without_memory_are_not_reachable(hip_library: ctypes.CDLL) -> None:
    base, out = ctypes.c_void_p(), ctypes.c_void_p()
    reserve = (ctypes.byref(base), size_t(PAGE), size_t(0), None, 0)
    assert hip_library.hipMemAddressReserve(*reserve) == SUCCESS

    assert hip_library.hipPointerGetAttribute(ctypes.byref(out), 3, base) == INVALID_VALUE
    assert hip_library.hipMemset(base, 0, size_t(1)) == INVALID_VALUE
    assert hip_library.hipMemAddressFree(base, size_t(PAGE)) == SUCCESS


def test_map_of_odd_sizes_and_foreign_handles_is_refused(
    hip_library: ctypes.CDLL, fixed_mapping: ctypes.c_void_p
) -> None:
    handle = ctypes.c_void_p()
    hip = hip_library

    create = (ctypes.byref(handle), size_t(100), ctypes.byref(DEVICE_MEMORY), 0)
    assert hip.hipMemCreate(*create) == INVALID_VALUE
    assert hip.hipMemMap(fixed_mapping, size_t(PAGE), size_t(0), ctypes.c_void_p(64), 0) == (
        INVALID_VALUE
    )
    assert hip.hipMemUnmap(fixed_mapping, size_t(PAGE)) == INVALID_VALUE
    assert hip.hipMemAddressFree(fixed_mapping, size_t(2 * PAGE)) == INVALID_VALUE


def test_memory_mapped_twice_shows_one_content(hip_library: ctypes.CDLL) -> None:
    hip, size = hip_library, size_t(PAGE)
    base, handle = ctypes.c_void_p(), ctypes.c_void_p()
    hip.hipMemAddressReserve(ctypes.byref(base), size_t(2 * PAGE), size_t(0), None, 0)
    hip.hipMemCreate(ctypes.byref(handle), size, ctypes.byref(DEVICE_MEMORY), 0)
    access = AccessDescription(type=1, id=0, flags=3)
    for part in (base, offset(base, PAGE)):
        assert hip.hipMemMap(part, size, size_t(0), handle, 0) == SUCCESS
        assert hip.hipMemSetAccess(part, size, ctypes.byref(access), size_t(1)) == SUCCESS
    back = ctypes.create_string_buffer(1)

    hip.hipMemset(base, 0x5A, size)
    hip.hipMemcpy(back, offset(base, PAGE), size_t(1), DEVICE_TO_HOST)

    assert back.raw == b"\x5a"
    assert hip.hipMemRelease(handle) == SUCCESS
    assert hip.hipMemUnmap(base, size_t(2 * PAGE)) == SUCCESS
    assert hip.hipMemAddressFree(base, size_t(2 * PAGE)) == SUCCESS


def test_reserved_addresses_that_were_host_memory_are_not_reachable(
    hip_library: ctypes.CDLL,
) -> None:
    libc, out, base = ctypes.CDLL(None), ctypes.c_void_p(), ctypes.c_void_p()
    libc.mmap.restype = ctypes.c_void_p
    page = ctypes.c_void_p(libc.mmap(None, size_t(PAGE), 3, 0x22, -1, 0))
    assert hip_library.hipPointerGetAttribute(ctypes.byref(out), 3, page) == SUCCESS
    libc.munmap(page, size_t(PAGE))

    reserve = (ctypes.byref(base), size_t(PAGE), size_t(0), page, 0)
    assert hip_library.hipMemAddressReserve(*reserve) == SUCCESS

    assert base.value == page.value
    assert hip_library.hipPointerGetAttribute(ctypes.byref(out), 3, page) == INVALID_VALUE
    assert hip_library.hipMemAddressFree(base, size_t(PAGE)) == SUCCESS
