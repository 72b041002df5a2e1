"""A program compiled by clang with `kernel<<<…>>>` runs on the emulated device."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from asmevo import native
from asmevo.replay.device import Device

SOURCE = Path(__file__).parents[1] / "fixtures" / "axpy.hip"
CLANG = next(
    filter(None, map(shutil.which, ("clang-22", "clang-21", "clang-20", "clang-19"))), None
)


@pytest.mark.skipif(CLANG is None, reason="needs a clang with AMDGPU")
@pytest.mark.parametrize(
    ("arch", "flag"),
    [
        ("gfx942", "--no-offload-compress"),
        ("gfx942", "--offload-compress"),
        ("gfx90a", "--no-offload-compress"),
        ("gfx950", "--no-offload-compress"),
    ],
)
def test_compiled_program_gets_the_right_sums(arch: str, flag: str, tmp_path: Path) -> None:
    program = tmp_path / "axpy"
    flags = [
        "-x",
        "hip",
        f"--offload-arch={arch}",
        "-O2",
        "-nogpuinc",
        "-nogpulib",
        "--hip-link",
        flag,
    ]
    link = [f"-L{native.emulator_folder()}", "-lamdhip64"]
    subprocess.run([str(CLANG), *flags, str(SOURCE), "-o", str(program), *link], check=True)

    done = subprocess.run(
        [str(program)],
        env=Device.emulated(arch=arch).environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "2998000\n", "")
