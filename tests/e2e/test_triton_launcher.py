"""Triton's own compiler and launcher drive the emulated device, with pageable CPU tensors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "server" / "triton_program.py"


@pytest.mark.triton
@pytest.mark.parametrize("chip", ["mi210", "mi355x"])  # test_demo_server has the MI300X
def test_triton_program_gets_torchs_results(chip: str, tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="needs torch and triton")
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": str(tmp_path),
        "TRITON_DEFAULT_FP_FUSION": "1",
    }

    output = subprocess.check_output(
        [
            *(sys.executable, "-m", "asmevo", "emulate", "--chip", chip),
            "--",
            sys.executable,
            PROGRAM,
        ],
        env=environment,
        text=True,
    )

    errors = json.loads(output)
    assert errors["add_error"] == 0.0
    assert errors["dot_error"] < 1e-3
