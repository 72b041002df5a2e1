"""Compiled functions with private arrays: scratch, FLAT and (on gfx90a) buffer accesses agree."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from kernel_runner import KernelOptions, run_code_object

CLANG = next(
    filter(None, map(shutil.which, ("clang-22", "clang-21", "clang-20", "clang-19"))), None
)
SOURCE = Path(__file__).parents[2] / "fixtures" / "private_stack.c"
THREADS = 256


def mix(p: list[int], n: int) -> int:
    a = [p[(i + n) & 7] * (i + 1) for i in range(8)]
    return sum(a[(i * n) & 7] for i in range(8))


def expected(thread: int) -> int:
    p = [thread * 10 + i for i in range(8)]
    b = [p[i] ^ (thread * i) for i in range(8)]
    return mix(b, thread) + mix(p, thread + 1) + b[thread & 7] + p[thread & 7]


@pytest.mark.skipif(CLANG is None, reason="needs a clang with AMDGPU")
@pytest.mark.parametrize("level", ["-O0", "-O3"])
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_private_arrays_behind_calls_keep_their_values(
    arch: str, level: str, tmp_path: Path
) -> None:
    assert CLANG is not None
    output = tmp_path / "private_stack.hsaco"
    target = ["--target=amdgcn-amd-amdhsa", f"-mcpu={arch}", level, "-nogpulib", "-ffreestanding"]
    done = subprocess.run(
        [CLANG, *target, str(SOURCE), "-o", str(output)], check=False, capture_output=True
    )
    if done.returncode != 0:
        pytest.skip("this clang cannot link for AMDGPU")
    options = KernelOptions(block=(THREADS, 1, 1))

    (out,) = run_code_object(arch, output.read_bytes(), [np.zeros(THREADS, np.int32)], options)

    assert out.tolist() == [expected(thread) for thread in range(THREADS)]
