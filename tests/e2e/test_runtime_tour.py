"""C and C++ programs for ROCm's own header run on the emulated device by the library path."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import triton

from asmevo import native
from asmevo.codeobject import toolchain
from asmevo.replay.device import Device

FIXTURES = Path(__file__).parents[1] / "fixtures"
HEADERS = Path(triton.__file__).parent / "backends" / "amd" / "include"
CLANG = next(filter(None, map(shutil.which, ("clang-22", "clang-21"))), None)
COMPILER = shutil.which("cc")
LINK = [f"-I{HEADERS}", f"-L{native.emulator_folder()}", "-lamdhip64"]


def run(command: list[str], arch: str) -> subprocess.CompletedProcess[str]:
    environment = Device.emulated(arch=arch).environment()
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(CLANG is None, reason="needs a clang with AMDGPU")
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_cpp_program_finds_all_that_it_asks_of_the_runtime(arch: str, tmp_path: Path) -> None:
    program = tmp_path / "tour"
    flags = ["-x", "hip", f"--offload-arch={arch}", "-O2", "-std=c++17", "-nogpuinc", "-nogpulib"]
    source = ["--hip-link", str(FIXTURES / "runtime_tour.hip"), "-o", str(program)]
    subprocess.run([str(CLANG), *flags, *source, *LINK, "-lstdc++"], check=True)

    done = run([str(program)], arch)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_c_program_loads_a_module_and_sets_its_global(tmp_path: Path) -> None:
    program, image = tmp_path / "tour", tmp_path / "kernarg_dump.co"
    text = (FIXTURES / "kernarg_dump.s").read_text()
    image.write_bytes(toolchain.link(toolchain.assemble(text, "gfx942")))
    source = str(FIXTURES / "module_tour.c")
    subprocess.run([str(COMPILER), source, "-o", str(program), *LINK], check=True)

    done = run([str(program), str(image)], "gfx942")

    assert (done.returncode, done.stdout, done.stderr) == (0, "4711 9 90\n", "")
