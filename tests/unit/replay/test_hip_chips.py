"""What each chip says of itself, against AMD's data sheets and what ROCm prints on them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from asmevo.replay.device import CHIPS, Device

# hipDeviceAttribute_t of ROCm 7.
ATTRIBUTES = {
    "compute_units": 63,
    "lds": 74,
    "clock_khz": 5,
    "memory_clock_khz": 60,
    "bus_bits": 59,
    "l2": 19,
    "xccs": 10018,
    "pci_id": 10020,
    "minor": 61,
    "integrated": 16,
}
# Compute units, LDS, MHz, memory MHz, bus, L2 (MiB, of one XCC), XCCs, PCI device, gfx9 minor, APU.
PUBLISHED = {
    "mi210": (104, 65536, 1700, 1600, 4096, 8, 1, 0x740F, 0, 0),
    "mi250x": (110, 65536, 1700, 1600, 4096, 8, 1, 0x7408, 0, 0),
    "mi300x": (304, 65536, 2100, 1300, 8192, 4, 8, 0x74A1, 4, 0),
    "mi300a": (228, 65536, 2100, 1300, 8192, 4, 6, 0x74A0, 4, 1),
    "mi308x": (80, 65536, 1420, 1300, 8192, 4, 4, 0x74A2, 4, 0),
    "mi325x": (304, 65536, 2100, 1500, 8192, 4, 8, 0x74A5, 4, 0),
    "mi355x": (256, 163840, 2400, 2000, 8192, 4, 8, 0x75A3, 5, 0),
}
# The same for all: work-items a block and a unit, wave, registers, blocks of 1024 a unit,
# managed memory, cooperative launch, memory pools, virtual memory, constant clock in kHz.
COMMON = {56: 1024, 57: 2048, 87: 64, 71: 65536, 72: 65536, 25: 2, 24: 1, 10: 1, 88: 1, 89: 1}
COMMON |= {10017: 100_000, 10000: 1_000_000, 23: 9, 29: 2**31 - 1, 30: 65536, 31: 65536}

CODE = """
import ctypes, json, sys
hip = ctypes.CDLL("libamdhip64.so")
out = {}
for number in map(int, sys.argv[1:]):
    value = ctypes.c_int()
    assert hip.hipDeviceGetAttribute(ctypes.byref(value), number, 0) == 0, number
    out[number] = value.value
properties = ctypes.create_string_buffer(1472)
assert hip.hipGetDevicePropertiesR0600(properties, 0) == 0
name, arch = properties.raw[:256], properties.raw[1160:1416]
out["name"], out["arch"] = (text.split(b"\\0")[0].decode() for text in (name, arch))
print(json.dumps(out))
"""


@pytest.mark.parametrize("chip", PUBLISHED)
def test_chip_says_what_is_published(chip: str) -> None:
    numbers = [*ATTRIBUTES.values(), *COMMON]
    done = subprocess.run(
        [sys.executable, "-c", CODE, *map(str, numbers)],
        env=Device.emulated(chip=chip).environment(),
        capture_output=True,
        text=True,
        check=True,
    )

    said = json.loads(done.stdout)

    units, lds, clock, memory_clock, bus, l2, *rest = PUBLISHED[chip]
    expected = (units, lds, clock * 1000, memory_clock * 1000, bus, l2 << 20, *rest)
    assert tuple(said[str(number)] for number in ATTRIBUTES.values()) == expected
    assert {number: said[str(number)] for number in COMMON} == COMMON
    assert said["name"] == CHIPS[chip].name
    assert said["arch"] == f"{CHIPS[chip].arch}:sramecc+:xnack-"


def test_every_chip_is_compared() -> None:
    assert set(PUBLISHED) == set(CHIPS)
