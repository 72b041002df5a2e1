"""A handful of vLLM's and SGLang's Triton kernels, through their wrappers, against torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.triton
ROOT = Path(__file__).parents[2]


def test_real_kernels_fast_cases_agree_with_torch(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, ROOT / "tests" / "kernels" / "verify_kernels.py", "--fast"],
        check=False,
        capture_output=True,
        text=True,
        timeout=570,
        env=os.environ | {"ASMEVO_KERNEL_RESULTS": str(tmp_path)},
    )

    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert "as expected" in result.stdout.splitlines()[-1]
