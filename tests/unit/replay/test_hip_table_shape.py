"""The emulated device's dispatch table has ROCm's shape: what capture and shim rely on."""

from __future__ import annotations

import ctypes
import struct

import pytest

CALL = 0xE8  # call rel32
TAIL_JUMP, TAIL_JUMP_SHORT = b"\xff\xa0", b"\xff\x60"  # jmp [rax + disp32], jmp [rax + disp8]
SLOTS = {
    "hipFree": 90,
    "hipGetDevicePropertiesR0600": 105,
    "hipLaunchKernel": 214,
    "hipMalloc": 215,
    "hipModuleLaunchKernel": 308,
    "hipModuleLoadData": 310,
    "hipExtModuleLaunchKernel": 388,
    "hipLaunchKernelExC": 474,
    "hipDrvLaunchKernelEx": 475,
    "hipModuleLoadFatBinary": 486,
    "hipKernelGetFunction": 516,
}
SUCCESS, INVALID_VALUE, NOT_SUPPORTED = 0, 1, 801


def export_address(hip: ctypes.CDLL, name: str) -> int:
    address = ctypes.cast(getattr(hip, name), ctypes.c_void_p).value
    assert address is not None
    return address


def decode(hip: ctypes.CDLL, name: str) -> tuple[int, int]:
    """Address of the function that an export calls, and the displacement of its last jump."""
    address = export_address(hip, name)
    code = ctypes.string_at(address, 64)
    call = code.index(CALL)
    getter = address + call + 5 + struct.unpack_from("<i", code, call + 1)[0]
    jump = code.find(TAIL_JUMP)
    if jump >= 0:
        return getter, struct.unpack_from("<i", code, jump + 2)[0]
    return getter, code[code.index(TAIL_JUMP_SHORT) + 2]


def table_address(hip: ctypes.CDLL) -> int:
    """What the getter gives: `lea rax, [rip + disp32]; ret`."""
    getter, _ = decode(hip, "hipMalloc")
    code = ctypes.string_at(getter, 8)
    assert (code[:3], code[7]) == (b"\x48\x8d\x05", 0xC3)
    return getter + 7 + int(struct.unpack_from("<i", code, 3)[0])


@pytest.mark.parametrize(("name", "index"), SLOTS.items())
def test_export_is_a_thunk_over_its_slot(hip_library: ctypes.CDLL, name: str, index: int) -> None:
    getter, displacement = decode(hip_library, name)

    assert displacement == 8 + 8 * index
    assert getter == decode(hip_library, "hipGetDevice")[0]


def test_compiler_functions_have_a_table_of_their_own(hip_library: ctypes.CDLL) -> None:
    getter, displacement = decode(hip_library, "__hipRegisterFunction")

    assert displacement == 8 + 8 * 3
    assert getter != decode(hip_library, "hipMalloc")[0]


def test_table_starts_with_its_size(hip_library: ctypes.CDLL) -> None:
    size = ctypes.c_uint64.from_address(table_address(hip_library)).value

    assert size == 8 + 8 * 517


def test_swapped_slot_takes_effect_and_goes_back(hip_library: ctypes.CDLL) -> None:
    callback_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int))
    slot = ctypes.c_uint64.from_address(table_address(hip_library) + 8 + 8 * 103)
    original, seen = slot.value, []

    def hook(count: ctypes._Pointer[ctypes.c_int]) -> int:
        seen.append(True)
        return int(callback_type(original)(count))

    count, callback = ctypes.c_int(), callback_type(hook)
    slot.value = ctypes.cast(callback, ctypes.c_void_p).value or 0
    try:
        assert hip_library.hipGetDeviceCount(ctypes.byref(count)) == SUCCESS
    finally:
        slot.value = original

    assert (count.value, seen) == (1, [True])
    assert hip_library.hipGetDeviceCount(ctypes.byref(count)) == SUCCESS
    assert seen == [True]


def test_get_proc_address_gives_the_exported_thunk(hip_library: ctypes.CDLL) -> None:
    address, status = ctypes.c_void_p(), ctypes.c_int(-1)
    flags = ctypes.c_uint64(0)

    for asked, exported in (
        (b"hipModuleLaunchKernel", "hipModuleLaunchKernel"),
        (b"hipGetDeviceProperties", "hipGetDevicePropertiesR0600"),
    ):
        arguments = (asked, ctypes.byref(address), 70100000, flags, ctypes.byref(status))
        assert hip_library.hipGetProcAddress(*arguments) == SUCCESS
        assert (address.value, status.value) == (export_address(hip_library, exported), 0)


def test_get_proc_address_of_an_unknown_name_is_refused(hip_library: ctypes.CDLL) -> None:
    address, status = ctypes.c_void_p(), ctypes.c_int(-1)
    arguments = (b"hipNoSuch", ctypes.byref(address), 70100000, ctypes.c_uint64(0))

    assert hip_library.hipGetProcAddress(*arguments, ctypes.byref(status)) == INVALID_VALUE
    assert (address.value, status.value) == (None, 1)


def test_unsupported_function_names_itself(
    hip_library: ctypes.CDLL, capfd: pytest.CaptureFixture[str]
) -> None:
    assert hip_library.hipGraphicsMapResources(0, None, None) == NOT_SUPPORTED

    ctypes.CDLL(None).fflush(None)
    assert "hipGraphicsMapResources (slot 188 " in capfd.readouterr().err
    assert hip_library.hipGetLastError() == NOT_SUPPORTED
    assert hip_library.hipGetLastError() == SUCCESS
