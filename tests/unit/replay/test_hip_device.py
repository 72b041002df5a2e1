"""What the emulated device says of itself, streams and events."""

from __future__ import annotations

import ctypes
import struct

SUCCESS, INVALID_VALUE, INVALID_DEVICE, INVALID_HANDLE = 0, 1, 101, 400
PROPERTIES_SIZE = 1472  # hipDeviceProp_tR0600


def test_properties_fill_the_r0600_struct_and_no_more(hip_library: ctypes.CDLL) -> None:
    buffer = ctypes.create_string_buffer(b"\xee" * (PROPERTIES_SIZE + 64), PROPERTIES_SIZE + 64)

    assert hip_library.hipGetDevicePropertiesR0600(buffer, 0) == SUCCESS

    raw = buffer.raw
    assert raw[PROPERTIES_SIZE:] == b"\xee" * 64
    assert raw[:20] == b"AMD Instinct MI300X\0"
    assert raw[1160:1183] == b"gfx942:sramecc+:xnack-\0"
    assert struct.unpack_from("<i", raw, 308) == (64,)  # warpSize
    assert struct.unpack_from("<i", raw, 388) == (304,)  # multiProcessorCount
    assert struct.unpack_from("<Q", raw, 296) == (65536,)  # sharedMemPerBlock


def test_attributes_agree_with_the_properties(hip_library: ctypes.CDLL) -> None:
    buffer, value = ctypes.create_string_buffer(PROPERTIES_SIZE), ctypes.c_int()
    hip_library.hipGetDevicePropertiesR0600(buffer, 0)

    # maxThreadsPerBlock, warpSize, multiProcessorCount, clockRate, memoryBusWidth, major, minor
    for attribute, offset in ((56, 320), (87, 308), (63, 388), (5, 348), (59, 612), (23, 360)):
        status = hip_library.hipDeviceGetAttribute(ctypes.byref(value), attribute, 0)
        assert (status, value.value) == (SUCCESS, *struct.unpack_from("<i", buffer.raw, offset))


def test_unknown_attribute_and_device_are_refused(hip_library: ctypes.CDLL) -> None:
    value = ctypes.c_int()

    assert hip_library.hipDeviceGetAttribute(ctypes.byref(value), 5000, 0) == INVALID_VALUE
    assert hip_library.hipDeviceGetAttribute(ctypes.byref(value), 56, 1) == INVALID_DEVICE
    assert hip_library.hipSetDevice(1) == INVALID_DEVICE
    assert hip_library.hipGetLastError() == INVALID_DEVICE


def test_version_is_of_rocm_7(hip_library: ctypes.CDLL) -> None:
    version = ctypes.c_int()

    assert hip_library.hipDriverGetVersion(ctypes.byref(version)) == SUCCESS

    assert version.value // 10_000_000 == 7


def test_error_names_are_hips(hip_library: ctypes.CDLL) -> None:
    hip_library.hipGetErrorName.restype = ctypes.c_char_p

    assert hip_library.hipGetErrorName(719) == b"hipErrorLaunchFailure"
    assert hip_library.hipGetErrorName(123456) == b"hipErrorUnknown"


def test_destroyed_stream_is_no_longer_one(hip_library: ctypes.CDLL) -> None:
    stream = ctypes.c_void_p()
    assert hip_library.hipStreamCreate(ctypes.byref(stream)) == SUCCESS
    assert hip_library.hipStreamQuery(stream) == SUCCESS

    assert hip_library.hipStreamDestroy(stream) == SUCCESS

    assert hip_library.hipStreamQuery(stream) == INVALID_HANDLE
    assert hip_library.hipStreamDestroy(stream) == INVALID_HANDLE
    assert hip_library.hipStreamQuery(None) == SUCCESS


def test_elapsed_time_needs_two_recorded_events(hip_library: ctypes.CDLL) -> None:
    start, stop, elapsed = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float(-1)
    hip_library.hipEventCreate(ctypes.byref(start))
    hip_library.hipEventCreate(ctypes.byref(stop))
    measure = (ctypes.byref(elapsed), start, stop)

    assert hip_library.hipEventRecord(start, None) == SUCCESS
    assert hip_library.hipEventElapsedTime(*measure) == INVALID_HANDLE
    assert hip_library.hipEventRecord(stop, None) == SUCCESS
    assert hip_library.hipEventElapsedTime(*measure) == SUCCESS

    assert elapsed.value >= 0
    assert hip_library.hipEventDestroy(start) == SUCCESS
    assert hip_library.hipEventDestroy(stop) == SUCCESS
