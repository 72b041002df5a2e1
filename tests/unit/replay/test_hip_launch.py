"""Launches on the emulated device: arguments, hidden arguments, refusals, failures."""

from __future__ import annotations

import ctypes
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asmevo.replay.device import Device

SUCCESS, INVALID_VALUE, INVALID_CONFIGURATION, INVALID_HANDLE = 0, 1, 9, 400
OUT_OF_RESOURCES, LAUNCH_FAILURE = 701, 719
KERNARG_SIZE = 256
PRIVATE_BASE, SHARED_BASE = 0x20000, 0x10000  # high halves of the apertures: exec/wave.h

Dimensions = tuple[int, int, int]


class Dumper:
    """Launches kernarg_dump and reads what it saw as its kernarg segment."""

    def __init__(self, hip: ctypes.CDLL, image: bytes) -> None:
        self.hip = hip
        self.module, self.function, self.out = (ctypes.c_void_p() for _ in range(3))
        assert hip.hipModuleLoadData(ctypes.byref(self.module), image) == SUCCESS
        name = b"kernarg_dump"
        assert hip.hipModuleGetFunction(ctypes.byref(self.function), self.module, name) == SUCCESS
        assert hip.hipMalloc(ctypes.byref(self.out), ctypes.c_size_t(KERNARG_SIZE)) == SUCCESS

    def close(self) -> None:
        assert self.hip.hipFree(self.out) == SUCCESS
        assert self.hip.hipModuleUnload(self.module) == SUCCESS

    def params(self) -> ctypes.Array[ctypes.c_void_p]:
        self.values = (self.out, ctypes.c_uint32(0xAABBCCDD), ctypes.c_uint16(0x1122))
        addresses = [ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in self.values]
        return (ctypes.c_void_p * 3)(*addresses)

    def launch(
        self, grid: Dimensions = (1, 1, 1), block: Dimensions = (64, 1, 1), dynamic_lds: int = 0
    ) -> int:
        arguments = (*grid, *block, dynamic_lds, None, self.params(), None)
        return int(self.hip.hipModuleLaunchKernel(self.function, *arguments))

    def launch_extra(self, buffer: bytes) -> int:
        size = ctypes.c_size_t(len(buffer))
        extra = (ctypes.c_void_p * 5)(
            1, ctypes.cast(ctypes.c_char_p(buffer), ctypes.c_void_p), 2, ctypes.addressof(size), 3
        )
        geometry = (1, 1, 1, 64, 1, 1, 0, None, None)
        return int(self.hip.hipModuleLaunchKernel(self.function, *geometry, extra))

    def seen(self) -> bytes:
        back = ctypes.create_string_buffer(KERNARG_SIZE)
        size = ctypes.c_size_t(KERNARG_SIZE)
        assert self.hip.hipMemcpy(back, self.out, size, 2) == SUCCESS
        return back.raw


@pytest.fixture
def dumper(hip_library: ctypes.CDLL, kernarg_dump: bytes) -> Iterator[Dumper]:
    made = Dumper(hip_library, kernarg_dump)
    yield made
    made.close()


def test_params_stand_at_their_offsets(dumper: Dumper) -> None:
    assert dumper.launch() == SUCCESS

    assert struct.unpack_from("<QIH", dumper.seen()) == (dumper.out.value, 0xAABBCCDD, 0x1122)


def test_hidden_arguments_describe_the_launch(dumper: Dumper) -> None:
    assert dumper.launch(grid=(2, 3, 4), block=(64, 2, 1), dynamic_lds=512) == SUCCESS

    seen = dumper.seen()
    assert struct.unpack_from("<III", seen, 16) == (2, 3, 4)
    assert struct.unpack_from("<HHH", seen, 28) == (64, 2, 1)
    assert struct.unpack_from("<HHH", seen, 34) == (0, 0, 0)
    assert struct.unpack_from("<QQQ", seen, 56) == (0, 0, 0)
    assert struct.unpack_from("<H", seen, 80) == (3,)
    assert struct.unpack_from("<I", seen, 136) == (512,)
    assert struct.unpack_from("<II", seen, 208) == (PRIVATE_BASE, SHARED_BASE)
    assert struct.unpack_from("<Q", seen, 216) != (0,)


def test_extra_buffer_gives_the_arguments_but_not_the_hidden_ones(dumper: Dumper) -> None:
    assert dumper.out.value is not None
    buffer = struct.pack("<QIH", dumper.out.value, 7, 8) + bytes(2) + b"\xff" * 240

    assert dumper.launch_extra(buffer) == SUCCESS

    assert struct.unpack_from("<IH", dumper.seen(), 8) == (7, 8)
    assert struct.unpack_from("<IIIHHH", dumper.seen(), 16) == (1, 1, 1, 64, 1, 1)


def test_extra_buffer_that_is_too_short_is_refused(dumper: Dumper) -> None:
    assert dumper.launch_extra(bytes(13)) == INVALID_VALUE


def test_launch_without_arguments_is_refused(dumper: Dumper) -> None:
    geometry = (1, 1, 1, 64, 1, 1, 0, None, None, None)

    assert dumper.hip.hipModuleLaunchKernel(dumper.function, *geometry) == INVALID_VALUE


@pytest.mark.parametrize(
    ("grid", "block", "dynamic_lds", "expected"),
    [
        ((0, 1, 1), (64, 1, 1), 0, INVALID_CONFIGURATION),
        ((1, 1, 1), (64, 0, 1), 0, INVALID_CONFIGURATION),
        ((1, 1, 1), (257, 1, 1), 0, INVALID_CONFIGURATION),
        ((1, 1, 1), (1025, 1, 1), 0, INVALID_CONFIGURATION),
        ((1, 1, 1), (65536, 65536, 1), 0, INVALID_CONFIGURATION),
        ((0x80000000, 1, 1), (64, 1, 1), 0, INVALID_CONFIGURATION),
        ((1, 1, 1), (64, 1, 1), 65536 - 1024 + 1, OUT_OF_RESOURCES),
        ((1, 1, 1), (64, 1, 1), 65536 - 1024, SUCCESS),
    ],
)
def test_launch_outside_the_limits_is_refused(
    dumper: Dumper, grid: Dimensions, block: Dimensions, dynamic_lds: int, expected: int
) -> None:
    assert dumper.launch(grid, block, dynamic_lds) == expected


def test_refused_launch_is_not_sticky(dumper: Dumper) -> None:
    dumper.launch(grid=(0, 1, 1))

    assert dumper.hip.hipGetLastError() == INVALID_CONFIGURATION
    assert dumper.hip.hipDeviceSynchronize() == SUCCESS
    assert dumper.launch() == SUCCESS


def test_launch_of_what_is_no_function_is_refused(hip_library: ctypes.CDLL) -> None:
    geometry = (1, 1, 1, 64, 1, 1, 0, None, None, None)

    status = hip_library.hipModuleLaunchKernel(ctypes.c_void_p(4096), *geometry)

    assert status == INVALID_HANDLE


def test_work_item_launch_counts_work_items(dumper: Dumper) -> None:
    launch = dumper.hip.hipExtModuleLaunchKernel
    rest = (ctypes.c_size_t(0), None, dumper.params(), None, None, None, 0)

    assert launch(dumper.function, 128, 4, 1, 32, 2, 1, *rest) == SUCCESS
    assert struct.unpack_from("<IIIHH", dumper.seen(), 16) == (4, 2, 1, 32, 2)
    assert launch(dumper.function, 100, 1, 1, 64, 1, 1, *rest) == SUCCESS
    seen = struct.unpack_from("<IIIHHHHHH", dumper.seen(), 16)
    assert seen == (1, 1, 1, 64, 1, 1, 36, 0, 0)  # whole workgroups, and what is left


def test_report_describes_the_last_dispatch(dumper: Dumper) -> None:
    dumper.hip.asmevo_emulator_last_report.restype = ctypes.c_char_p

    dumper.launch(grid=(3, 1, 1))
    report = json.loads(dumper.hip.asmevo_emulator_last_report())

    assert (report["kernel"], report["ok"], report["waves"]) == ("kernarg_dump", True, 3)
    assert report["wave_instructions"] == 3 * 7


def test_profile_option_lists_every_instruction(dumper: Dumper) -> None:
    hip = dumper.hip
    hip.asmevo_emulator_last_report.restype = ctypes.c_char_p
    assert hip.asmevo_emulator_set_option(b"profile", b"1") == SUCCESS

    try:
        dumper.launch(grid=(2, 1, 1))
        profile = json.loads(hip.asmevo_emulator_last_report())["profile"]
    finally:
        assert hip.asmevo_emulator_set_option(b"profile", b"0") == SUCCESS

    assert [offset for offset, _, _ in profile] == [0, 8, 16, 20, 28, 32, 40]
    assert {count for _, count, _ in profile} == {2}


def test_unknown_option_is_refused(hip_library: ctypes.CDLL) -> None:
    assert hip_library.asmevo_emulator_set_option(b"speed", b"1") == INVALID_VALUE
    assert hip_library.asmevo_emulator_set_option(b"threads", b"many") == INVALID_VALUE


# In a process of its own: the failure is sticky.
FAILING = """
import ctypes, json, sys
hip = ctypes.CDLL("libamdhip64.so")
hip.asmevo_emulator_last_report.restype = ctypes.c_char_p
module, function, stream, bad = (ctypes.c_void_p() for _ in range(4))
hip.hipModuleLoad(ctypes.byref(module), sys.argv[1].encode())
hip.hipModuleGetFunction(ctypes.byref(function), module, b"kernarg_dump")
host = ctypes.create_string_buffer(256)
target = ctypes.c_void_p(int(sys.argv[2], 0) or ctypes.addressof(host))
zero = ctypes.c_uint32(0)
params = (ctypes.c_void_p * 3)(*(ctypes.addressof(item) for item in (target, zero, zero)))
statuses = [
    hip.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, params, None),
    hip.hipStreamSynchronize(None),
    hip.hipDeviceSynchronize(),
    hip.hipMalloc(ctypes.byref(bad), ctypes.c_size_t(8)),
    hip.hipGetLastError(),
    hip.hipDeviceReset(),
    hip.hipDeviceSynchronize(),
]
print(json.dumps([statuses, json.loads(hip.asmevo_emulator_last_report())["report"]]))
"""


def run_failing(
    kernarg_dump: bytes, folder: Path, target: int, *, discrete: bool = False
) -> tuple[list[int], str, str]:
    image = folder / "k.hsaco"
    image.write_bytes(kernarg_dump)
    done = subprocess.run(
        [sys.executable, "-c", FAILING, str(image), hex(target)],
        env=Device.emulated(discrete=discrete).environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    statuses, report = json.loads(done.stdout)
    return statuses, report, done.stderr


def test_illegal_access_is_reported_and_sticky(kernarg_dump: bytes, tmp_path: Path) -> None:
    statuses, report, errors = run_failing(kernarg_dump, tmp_path, 0x1000)

    assert statuses == [*[LAUNCH_FAILURE] * 5, SUCCESS, SUCCESS]
    assert "illegal write of 4 bytes at 0x0000000000001000" in report
    assert "global_store_dword" in report
    assert report in errors


def test_pageable_memory_is_reached_unless_discrete(kernarg_dump: bytes, tmp_path: Path) -> None:
    unified, _, _ = run_failing(kernarg_dump, tmp_path, 0)
    discrete, report, _ = run_failing(kernarg_dump, tmp_path, 0, discrete=True)

    assert unified == [SUCCESS] * 7
    assert discrete[:2] == [LAUNCH_FAILURE] * 2
    assert "illegal write" in report
