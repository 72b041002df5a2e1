"""asmevo.replay.emulated_device: the device in a process that is running already."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.triton
@pytest.mark.parametrize("when", ["early", "late"])
def test_process_gets_the_device_before_and_after_torch_is_imported(when: str) -> None:
    pytest.importorskip("torch", reason="needs torch")

    done = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "torch_in_process_program.py", when],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {
        "device": "emulated:mi355x",
        "gradient": [2.0, 2.0, 2.0],
        "arch": "gfx950:sramecc+:xnack-",
        "pinned": True,
        "stream": True,
        "child": "gfx950:sramecc+:xnack-",
        "other chip": "too late",
    }
