"""Kernels that clang compiles, from -O0 to -O3, against a model in Python."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest
from emulator_kernel import run_image

CLANG = next(
    filter(None, map(shutil.which, ("clang-22", "clang-21", "clang-20", "clang-19"))), None
)
FIXTURE = Path(__file__).parents[2] / "fixtures" / "compiled_kernels.hip"
COUNT = 600
VALUES = [random.Random(1).randrange(-(1 << 31), 1 << 31) for _ in range(COUNT)]

pytestmark = pytest.mark.skipif(CLANG is None, reason="needs a clang with AMDGPU")


def wrap(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def reduce(_: int) -> int:
    return wrap(sum(VALUES))


def call(i: int) -> int:
    x, count = (VALUES[i] & 1023) + 1, 0
    while x != 1 and count < 200:
        x = 3 * x + 1 if x & 1 else x // 2
        count += 1
    return count


def private_array(i: int) -> int:
    values = [wrap(VALUES[(i + k) % COUNT] + k) for k in range(24)]
    x, total = VALUES[i] & 15, 0
    for k in range(24):
        total = wrap(total + values[(x * k + 3) % 24])
        values[(k * 7 + x) % 24] ^= total
    return total


def flat(i: int) -> int:
    group, at = divmod(i, 256)
    shared = [wrap(VALUES[(group * 256 + n) % COUNT] * 3) for n in range(256)]
    chosen = shared if VALUES[i] & 1 else VALUES
    own = [1, 2, 3, at]
    return wrap((own if at & 3 == 1 else chosen)[at & 3] + chosen[at * 5 & 63])


def histogram(i: int) -> int:
    return sum(value & 63 == i for value in VALUES)


def divide(i: int) -> int:
    a, b = VALUES[i], (VALUES[(i + 1) % COUNT] & 255) + 1
    unsigned = a % (1 << 32)
    quotient = abs(a) // b * (1 if a >= 0 else -1)
    rest = a - quotient * b
    bits = unsigned.bit_count() + 32 - b.bit_length()
    return wrap(quotient + rest + unsigned // b + unsigned * b % 1000003 + bits)


KERNELS: dict[str, tuple[Callable[[int], int], int, int]] = {
    "reduce": (reduce, 1, 1),
    "call": (call, COUNT, 3),
    "private_array": (private_array, COUNT, 3),
    "flat": (flat, COUNT, 3),
    "histogram": (histogram, 64, 3),
    "divide": (divide, COUNT, 3),
}
"""Model of an element, number of elements, workgroups."""


@lru_cache
def compiled(target: str, level: str) -> bytes:
    assert CLANG is not None
    options = ["-nogpuinc", "-nogpulib", "--cuda-device-only", "--no-gpu-bundle-output", level]
    command = [CLANG, "-x", "hip", f"--offload-arch={target}", *options, str(FIXTURE), "-o", "-"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"this clang cannot compile for {target}: {done.stderr.decode()[:200]}")
    return done.stdout


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("target", "level"),
    [("gfx942", "-O0"), ("gfx942", "-O3"), ("gfx90a", "-O0"), ("gfx90a", "-O3"), ("gfx950", "-O1")],
)
def test_compiled_kernel_agrees_with_the_model(kernel: str, target: str, level: str) -> None:
    model, count, groups = KERNELS[kernel]

    outcome = run_image(
        compiled(target, level),
        kernel=kernel,
        target=target,
        grid=(groups, 1, 1),
        block=(256, 1, 1),
        data=struct.pack(f"<{COUNT}i", *VALUES),
        output_bytes=4 * count,
        number=COUNT,
    )

    assert outcome.ok, outcome.report
    assert list(struct.unpack(f"<{count}i", outcome.output)) == [model(i) for i in range(count)]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("target", "level", "options"),
    [
        ("gfx942", "-O3", {"checks": "none", "seed": "4"}),
        ("gfx90a", "-O3", {"checks": "none", "seed": "5"}),
        ("gfx950", "-O1", {"checks": "none", "seed": "6"}),
        ("gfx942", "-O0", {"checks": "all", "on_finding": "collect"}),
        ("gfx90a", "-O0", {"checks": "all", "on_finding": "collect"}),
    ],
    ids=lambda value: value if isinstance(value, str) else value["checks"],
)
def test_compiled_kernel_is_right_under_seeds_and_clean_under_checks(
    kernel: str, target: str, level: str, options: dict[str, str]
) -> None:
    model, count, groups = KERNELS[kernel]

    outcome = run_image(
        compiled(target, level),
        kernel=kernel,
        target=target,
        grid=(groups, 1, 1),
        block=(256, 1, 1),
        data=struct.pack(f"<{COUNT}i", *VALUES),
        output_bytes=4 * count,
        number=COUNT,
        options=options,
    )

    assert outcome.ok, outcome.report
    assert [item for item in outcome.findings if item["class"] == "error"] == []
    assert list(struct.unpack(f"<{count}i", outcome.output)) == [model(i) for i in range(count)]
