"""The self-test of a device, and replay through plain HIP, both on the emulated library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from asmevo import native
from asmevo.replay.device import Device
from asmevo.replay.engine import replay
from asmevo.replay.options import OracleOptions
from asmevo.replay.self_test import run_self_test
from asmevo.replay.self_test_bundle import STORE, assemble_self_test, write_self_test
from asmevo.verdict import Status


@pytest.fixture
def plain_hip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Device:
    """The emulated library in ROCm's place: nothing of its own is used."""
    for name in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH"):
        monkeypatch.delenv(name, raising=False)
    if Path("/opt/rocm").exists():
        pytest.skip("this machine has ROCm")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(native.emulator_folder()))
    monkeypatch.setenv("ASMEVO_EMULATOR_DISCRETE", "1")
    monkeypatch.setenv("ASMEVO_CACHE", str(tmp_path / "cache"))
    return Device.parse("hip:0")


def test_self_test_passes_every_step_on_the_emulated_device() -> None:
    steps = list(run_self_test(Device.parse("emulated")))

    assert [step.problem for step in steps] == [""] * 8


def test_self_test_through_plain_hip_passes_and_proves_no_gpu(
    plain_hip: Device, tmp_path: Path
) -> None:
    steps = list(run_self_test(plain_hip))

    assert [step.problem for step in steps] == [""] * 9
    assert steps[0].found.startswith("emulated AMD Instinct MI300X")
    assert steps[2].name == "launches are timed by events"
    assert not (tmp_path / "cache").exists()


def test_replay_through_plain_hip_times_by_turns_and_says_that_nothing_is_proven(
    plain_hip: Device, tmp_path: Path
) -> None:
    bundle = write_self_test(tmp_path, "gfx942")
    same, wrong = tmp_path / "same.hsaco", tmp_path / "wrong.hsaco"
    same.write_bytes(assemble_self_test("gfx942", f"  s_nop 3\n{STORE}"))
    wrong.write_bytes(assemble_self_test("gfx942", f"  v_add_f32_e32 v3, 1.0, v3\n{STORE}"))
    options = OracleOptions(timing_rounds=5, warm_up=1)

    result = replay(bundle, [same, wrong], device=plain_hip, options=options)

    assert "has not been proven on a real GPU" in result.notes[0]
    assert "managed memory" in result.notes[1]
    kept, broken = result.candidates
    assert kept.verdict.has_passed, kept.verdict.reasons
    assert kept.measurement is not None
    assert len(kept.measurement.measured_ms) == len(kept.measurement.k0_ms) == 5
    assert kept.measurement.caches == "warm"
    assert kept.measurement.modelled_cycles is None
    assert kept.measurement.speedup is not None
    assert broken.verdict.status is Status.DIVERGENT


def test_doctor_of_device_that_is_not_there_exits_1_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    if Path("/opt/rocm").exists():
        pytest.skip("this machine has ROCm")
    command = [sys.executable, "-m", "asmevo", "doctor", "--device", "hip:0", "--json"]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    (step,) = json.loads(done.stdout)["steps"]
    assert step["name"] == "runtime"
    assert "no HIP device" in step["problem"]
