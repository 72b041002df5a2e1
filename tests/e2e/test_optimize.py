"""The search on a hand-written kernel that leaves time lying about, on the emulated device."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from small_bundle import Buffer, write_small_bundle

from asmevo.codeobject.recover import recover
from asmevo.codeobject.toolchain import assemble, link
from asmevo.optimizer.run import optimize, read_bundles
from asmevo.optimizer.search import Budget
from asmevo.replay.device import Device
from asmevo.replay.engine import replay

_SOURCE = (Path(__file__).parents[1] / "fixtures" / "scale.s").read_text()
_LOAD = "  global_load_dword v2, v1, s[6:7]\n  s_waitcnt vmcnt(0)\n"
_SLOW = """
  v_mov_b32_e32 v3, s8
  s_nop 7
  s_waitcnt lgkmcnt(0)
  v_add_f32_e32 v4, v3, v3
  v_mul_f32_e32 v5, v4, v4
  v_max_f32_e32 v5, v5, v5
  v_mov_b32_e32 v6, v5
"""
_OUT, _X, _COUNT = 0x7E0000000000, 0x7E0000002000, 256


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    assert _SOURCE.count(_LOAD) == 1
    data = link(assemble(_SOURCE.replace(_LOAD, _SLOW + _LOAD), "gfx942"))
    x = np.arange(_COUNT, dtype=np.float32)
    return write_small_bundle(
        tmp_path / "scale-000.aeb",
        kernel="scale",
        code_object=data,
        buffers=[
            Buffer(address=_OUT, before=bytes(4 * _COUNT), after=(3 * x).tobytes()),
            Buffer(address=_X, before=x.tobytes(), after=x.tobytes()),
        ],
        scalars=np.float32(3).tobytes(),
        grid=(_COUNT // 64, 1, 1),
    )


def test_optimize_makes_the_kernel_faster_and_leaves_its_results(
    bundle: Path, tmp_path: Path
) -> None:
    summary = optimize(
        read_bundles([bundle]),
        tmp_path / "run",
        device=Device.parse("emulated"),
        budget=Budget(candidates=40),
    )

    assert summary["speedup"] > 1.05
    assert {"R5", "W6"} & set(summary["committed"])
    best = tmp_path / "run" / "best.hsaco"
    assert "s_nop 7" not in [one.text for one in recover(best.read_bytes()).instructions]
    result = replay(bundle, [best], device=Device.parse("emulated"))
    (judged,) = result.candidates
    assert judged.verdict.has_passed
    assert {one.against for one in judged.comparisons} >= {"K0"}
    assert judged.measurement is not None
    assert judged.measurement.modelled_cycles == summary["best_modelled_cycles"]


def test_optimize_that_was_killed_goes_on(bundle: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "asmevo", "optimize", str(bundle), "-o", str(run), "--json"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    log = run / "attempts.jsonl"
    deadline = time.monotonic() + 120
    while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    before = log.read_text().splitlines()

    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["has_improved"]
    assert log.read_text().splitlines()[: len(before)] == before
