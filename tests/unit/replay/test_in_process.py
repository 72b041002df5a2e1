from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from asmevo.errors import UsageError
from asmevo.replay import emulated_device

ENTER = """
import ctypes, sys
from asmevo.replay import emulated_device
if len(sys.argv) > 1:
    ctypes.CDLL(sys.argv[1])
with emulated_device(chip="mi210"):
    runtime = ctypes.CDLL("libamdhip64.so")
    name = ctypes.create_string_buffer(64)
    runtime.hipDeviceGetName(name, 64, 0)
    print(name.value.decode(), "torch" in sys.modules)
"""


def enter(*arguments: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ENTER, *arguments], capture_output=True, text=True, check=False
    )


def test_emulated_device_is_what_the_process_finds_and_needs_no_torch() -> None:
    assert enter().stdout.split() == ["AMD", "Instinct", "MI210", "False"]


def test_emulated_device_after_another_runtime_says_too_late(stub_hip: Path) -> None:
    done = enter(stub_hip)

    assert done.returncode != 0
    assert f"too late: this process has loaded another HIP runtime, {stub_hip}" in done.stderr


def test_unknown_chip_changes_nothing_in_the_process() -> None:
    before = dict(os.environ)
    with pytest.raises(UsageError, match="unknown chip"), emulated_device(chip="mi0"):
        pass
    assert dict(os.environ) == before
