"""A capture harms nobody: it is killed, its disk is full, its target crashes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from asmevo.capture.bundle import open_bundle
from asmevo.codeobject import toolchain
from asmevo.replay.device import Device

HERE = Path(__file__).parent
KILLS = int(os.environ.get("ASMEVO_CAPTURE_KILLS", "2"))  # scripts/kill_captures: 50
LONGEST_S = 4.0  # from the start of the tool to its death: attaching alone takes 0.5 to 2


@pytest.fixture
def target(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Launches from four threads and checks each result until its stdin ends."""
    path = tmp_path / "scale.hsaco"
    text = (HERE.parent / "fixtures" / "scale.s").read_text()
    path.write_bytes(toolchain.link(toolchain.assemble(text, "gfx942")))
    process = subprocess.Popen(
        [sys.executable, str(HERE / "capture_target.py"), "4", str(path)],
        env=Device.emulated(threads=1).environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    if process.poll() is None:
        output, _ = process.communicate("", timeout=60)
        launches, wrong = map(int, output.split())
        assert launches > 0
        assert (wrong, process.returncode) == (0, 0)


def start_capture(pid: int, output: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "asmevo", "capture", "attach", str(pid), "-o", str(output)]
    return subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_until_left(pid: int) -> None:
    """Until the agent is out of the process, as it is soon after its owner's death."""
    deadline = time.monotonic() + 30
    maps = Path(f"/proc/{pid}/maps")
    while "frida-agent" in maps.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "frida-agent" not in maps.read_text()


def verify_bundles(folder: Path) -> int:
    paths = list(folder.glob("*.aeb"))
    for path in paths:
        with open_bundle(path) as bundle:
            bundle.verify()
    return len(paths)


def test_tool_killed_at_random_moments_leaves_target_and_bundles_whole(
    target: subprocess.Popen[str], tmp_path: Path
) -> None:
    rng = random.Random(6)
    for number in range(KILLS):
        process = start_capture(target.pid, tmp_path / "out", "--count", "100000")
        time.sleep(rng.uniform(0.2, LONGEST_S))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert target.poll() is None, f"the target died at kill {number}"
        wait_until_left(target.pid)
    verify_bundles(tmp_path / "out")

    last = start_capture(target.pid, tmp_path / "last", "--kernel", "scale")
    _, errors = last.communicate(timeout=120)

    assert last.returncode == 0, errors
    assert verify_bundles(tmp_path / "last") == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("may not mount a file system here")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_full_disk_ends_the_capture_and_leaves_whole_bundles_only(
    target: subprocess.Popen[str], small_disk: Path
) -> None:
    process = start_capture(target.pid, small_disk / "out", "--count", "100000")

    _, errors = process.communicate(timeout=120)

    assert (process.returncode, len(errors.splitlines())) == (2, 1), errors
    assert "cannot be written: No space left on device" in errors
    assert verify_bundles(small_disk / "out") > 0
    assert not list(small_disk.rglob("*.partial"))
    wait_until_left(target.pid)


def test_target_that_crashes_leaves_its_bundles_whole(
    target: subprocess.Popen[str], tmp_path: Path
) -> None:
    process = start_capture(target.pid, tmp_path / "out", "--count", "100000")
    deadline = time.monotonic() + 60
    while not list((tmp_path).glob("out/*.aeb")) and time.monotonic() < deadline:
        time.sleep(0.02)

    target.kill()
    target.communicate()
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 0, errors
    assert verify_bundles(tmp_path / "out") > 0
    assert not list((tmp_path / "out").glob("*.partial"))
