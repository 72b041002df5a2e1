"""The interposer under a HIP program on the emulated device."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from asmevo.codeobject import toolchain
from asmevo.replay.device import Device
from asmevo.shim.swap_manifest import SwapEntry, write_manifest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def k0() -> bytes:
    text = (HERE.parent / "fixtures" / "scale.s").read_text()
    return toolchain.link(toolchain.assemble(text, "gfx942"))


@pytest.fixture(scope="module")
def other() -> bytes:
    """Adds instead of multiplying: that it runs shows in the results."""
    text = (HERE.parent / "fixtures" / "scale.s").read_text()
    return toolchain.link(toolchain.assemble(text.replace("v_mul_f32", "v_add_f32"), "gfx942"))


def make_swap_folder(folder: Path, k0: bytes, optimized: bytes) -> Path:
    folder.mkdir()
    (folder / "best.hsaco").write_bytes(optimized)
    entry = SwapEntry(
        k0_sha256=hashlib.sha256(k0).hexdigest(),
        k0_size=len(k0),
        optimized_sha256=hashlib.sha256(optimized).hexdigest(),
        optimized_size=len(optimized),
        arch="gfx942",
        file_name="best.hsaco",
    )
    write_manifest(folder, [entry])
    return folder


def run_program(swap: Path, image: Path) -> tuple[int, int, list[str]]:
    """Launches, wrong results, and what `swap status` says happened."""
    asmevo = [sys.executable, "-m", "asmevo", "swap"]
    program = [sys.executable, str(HERE / "capture_target.py"), "2", str(image)]
    process = subprocess.Popen(
        [*asmevo, "run", str(swap), "--", *program],
        env=Device.emulated(threads=1).environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    output, _ = process.communicate("", timeout=60)
    assert process.returncode == 0
    launches, wrong = map(int, output.split())
    status = subprocess.run(
        [*asmevo, "status", str(swap), "--json"], capture_output=True, check=True, text=True
    )
    return launches, wrong, [event["kind"] for event in json.loads(status.stdout)["events"]]


def test_object_of_the_swap_folder_runs_in_place_of_k0(
    tmp_path: Path, k0: bytes, other: bytes
) -> None:
    image = tmp_path / "k0.hsaco"
    image.write_bytes(k0)

    launches, wrong, events = run_program(make_swap_folder(tmp_path / "swap", k0, other), image)

    assert launches > 0
    assert wrong == launches
    assert events == ["active", "swapped", "swapped"]  # each thread loads it


@pytest.mark.parametrize("damage", ["cut", "missing", "refused"])
def test_object_that_cannot_be_used_leaves_k0_running(
    tmp_path: Path, k0: bytes, other: bytes, damage: str
) -> None:
    image = tmp_path / "k0.hsaco"
    image.write_bytes(k0)
    if damage == "refused":  # by the runtime: everything behind the ELF header is gone
        swap = make_swap_folder(tmp_path / "swap", k0, other[:64] + bytes(len(other) - 64))
    else:
        swap = make_swap_folder(tmp_path / "swap", k0, other)
        optimized = swap / "best.hsaco"
        optimized.unlink() if damage == "missing" else optimized.write_bytes(other[:-8])

    launches, wrong, events = run_program(swap, image)

    assert launches > 0
    assert wrong == 0
    assert events == ["active", "kept", "kept"]
