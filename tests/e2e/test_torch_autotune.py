"""Autotuners under `asmevo emulate`: a repeatable choice, or times when asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("torch_autotune_program.py")
TIME_LIMIT_S = 300

pytestmark = pytest.mark.triton


def run_program(*options: str) -> tuple[Any, str]:
    pytest.importorskip("triton", reason="needs torch and triton")
    done = subprocess.run(
        [sys.executable, "-m", "asmevo", "emulate", *options, "--", sys.executable, PROGRAM],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=True,
    )
    return json.loads(done.stdout), done.stderr


def test_autotuner_by_default_takes_the_first_that_runs() -> None:
    result, notes = run_program()

    # One that does not compile, one launch of the choice, then the two calls.
    assert result == {"block": 64, "launches": [1 << 20, 64, 64, 64], "is_right": True}
    assert notes.count("autotuners take their first configuration") == 1


def test_autotuner_when_asked_times_every_configuration() -> None:
    result, notes = run_program("--autotune")

    assert {64, 128} <= set(result["launches"])
    assert len(result["launches"]) > 6
    assert result["is_right"]
    assert "autotuners" not in notes
