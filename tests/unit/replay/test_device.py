"""Naming a device, and the environment of a child process that uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from asmevo import native
from asmevo.errors import UsageError
from asmevo.replay.device import CHIPS, Chip, Device, DeviceKind


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("emulated", "emulated:mi300x"),
        ("emulated:mi355x", "emulated:mi355x"),
        ("emulated:gfx90a", "emulated:mi210"),
        ("hip", "hip:0"),
        ("hip:3", "hip:3"),
    ],
)
def test_parse_known_device_names_it(text: str, shown: str) -> None:
    assert str(Device.parse(text)) == shown


@pytest.mark.parametrize("text", ["", "cuda", "hip:x", "hip:-1", "hip:99999", "emulated:h100"])
def test_parse_unknown_device_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        Device.parse(text)


def test_emulated_chip_of_another_arch_is_refused() -> None:
    with pytest.raises(UsageError, match="gfx942"):
        Device.emulated(chip="mi300x", arch="gfx950")


def test_environment_of_emulated_device_puts_its_library_first() -> None:
    folder = str(native.emulator_folder())
    base = {"LD_LIBRARY_PATH": f"/a:{folder}", "HOME": "/h", "ASMEVO_EMULATOR_DISCRETE": "1"}

    result = Device.parse("emulated:mi300a").environment(base)

    assert result["LD_LIBRARY_PATH"] == f"{folder}:/a:{folder}/stubs"
    assert result["TRITON_LIBHIP_PATH"] == f"{folder}/libamdhip64.so"
    assert result["ASMEVO_EMULATOR_ARCH"] == "gfx942"
    assert result["ASMEVO_EMULATOR_CHIP"] == "mi300a"
    assert "ASMEVO_EMULATOR_DISCRETE" not in result
    assert "ASMEVO_EMULATOR_THREADS" not in result
    assert base["LD_LIBRARY_PATH"] == f"/a:{folder}"


def test_environment_hides_an_installed_rocm(tmp_path: Path) -> None:
    library = tmp_path / "lib" / "libamdhip64.so"
    library.parent.mkdir()
    library.touch()

    result = Device.parse("emulated").environment({"ROCM_PATH": str(tmp_path)})

    folder = native.emulator_folder()
    assert result["ROCM_PATH"] == str(folder)
    assert result["LD_LIBRARY_PATH"] == f"{folder}/lib:{folder}/stubs"
    assert result["TRITON_LIBHIP_PATH"] == f"{folder}/lib/libamdhip64.so"
    assert (folder / "lib" / "libamdhip64.so").exists()


def test_environment_of_a_gpu_narrows_the_visible_devices() -> None:
    device = Device.parse("hip:2")

    assert device.kind is DeviceKind.HIP
    assert device.environment({"A": "b"}) == {"A": "b", "HIP_VISIBLE_DEVICES": "2"}


PROPERTIES = """
from hip import hip
status, found = hip.hipGetDeviceProperties(0)
print(found.gcnArchName, found.multiProcessorCount, found.name)
maps = open("/proc/self/maps").read().splitlines()
print(*{line.split()[-1] for line in maps if "libamdhip64" in line})
"""


@pytest.mark.parametrize("chip", CHIPS.values(), ids=lambda chip: chip.id)
def test_hip_python_in_a_child_sees_the_chip(chip: Chip) -> None:
    device = Device.parse(f"emulated:{chip.id}")

    output = subprocess.check_output(
        [sys.executable, "-c", PROPERTIES], env=device.environment(), text=True
    )

    assert device.chip is not None
    properties, library = output.splitlines()
    arch, units, name = properties.split(" ", 2)
    assert arch.split(":")[0] == device.chip.arch
    assert (int(units), name) == (device.chip.compute_units, device.chip.name)
    assert library == str(native.emulator_library())
