"""Triton's own tutorials run as they are; the benchmarks at their ends are left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
TIME_LIMIT_S = 400


@pytest.fixture(scope="module")
def tutorials() -> Path:
    """The folder that scripts/fetch_tutorials.py filled."""
    pytest.importorskip("triton", reason="needs torch and triton")
    fetched = subprocess.run(
        [sys.executable, SCRIPTS / "fetch_tutorials.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode:
        pytest.skip(f"needs Triton's tutorials: {fetched.stderr.strip()[-200:]}")
    return Path(fetched.stdout.strip())


@pytest.mark.triton
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("01-vector-add.py", "maximum difference between torch and triton is 0.0"),
        ("02-fused-softmax.py", "softmax-performance was skipped"),  # after its own assertion
        ("05-layer-norm.py", "layer-norm-backward was skipped"),  # after its own assertions
    ],
)
def test_tutorial_runs_unmodified(
    tutorials: Path, tmp_path: Path, name: str, expected: str
) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "asmevo", "emulate", "--skip-benchmarks", "--"),
            *(sys.executable, tutorials / name),
        ],
        env={**os.environ, "PYTHONWARNINGS": "ignore", "TRITON_DEFAULT_FP_FUSION": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    assert expected in done.stdout + done.stderr
