"""Proves on a device that a replay does there what it says: a small dispatch, and wrong versions.

For a real GPU, which this project's own tests never had: `asmevo doctor --device hip:0`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from asmevo.errors import AsmevoError, DeviceError
from asmevo.replay.device import Device, DeviceKind
from asmevo.replay.engine import ReplaySession
from asmevo.replay.proof import proof_path, write_proof
from asmevo.replay.records import ObjectResult
from asmevo.replay.self_test_bundle import COUNT, STORE, assemble_self_test, write_self_test
from asmevo.verdict import Status

__all__ = ["SelfTestStep", "run_self_test"]

_PROBE_TIMEOUT_S = 60.0
_LAUNCH_TIMEOUT_S = 10.0
_EMULATED = "emulated "
_PROBE = """
import sys
from hip import hip
for status, *_ in (hip.hipInit(0), hip.hipSetDevice(0)):
    if int(status) != 0: sys.exit(f"{status.name}")
status, properties = hip.hipGetDeviceProperties(0)
if int(status) != 0: sys.exit(f"{status.name}")
import ctypes
paths = {line.split()[-1] for line in open("/proc/self/maps") if "/libamdhip64.so" in line}
is_ours = any(hasattr(ctypes.CDLL(path), "asmevo_emulator_last_report") for path in paths)
sys.stdout.write(f"{properties.gcnArchName}\\n{'emulated ' if is_ours else ''}{properties.name}")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestStep:
    """One thing that the device must do."""

    name: str
    found: str = ""
    problem: str = ""

    @property
    def has_passed(self) -> bool:
        """True without a problem."""
        return not self.problem

    def to_json(self) -> dict[str, str]:
        """As JSON values."""
        return {"name": self.name, "found": self.found, "problem": self.problem}


def run_self_test(device: Device) -> Iterator[SelfTestStep]:
    """Each step as it ends; the last ones are missing when nothing can be replayed at all."""
    try:
        arch, name = _probe(device)
    except AsmevoError as error:
        yield SelfTestStep(name="runtime", problem=str(error))
        return
    yield SelfTestStep(name="runtime", found=f"{name} ({arch})")
    start = time.monotonic()
    has_passed = True
    with tempfile.TemporaryDirectory() as folder:
        for step in _replay_steps(device, arch.partition(":")[0], Path(folder)):
            has_passed &= step.has_passed
            yield step
    if has_passed and device.kind is DeviceKind.HIP and not name.startswith(_EMULATED):
        write_proof(device, f"{name} ({arch})")
        seconds = f"{time.monotonic() - start:.0f} s"
        yield SelfTestStep(
            name="proof", found=f"all passed in {seconds}; noted in {proof_path(device)}"
        )


def _probe(device: Device) -> tuple[str, str]:
    """Architecture and name, asked of the runtime in a process of its own."""
    command = [sys.executable, "-c", _PROBE]
    try:
        done = subprocess.run(
            command,
            env=device.environment(),
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(f"the HIP runtime did not answer in {_PROBE_TIMEOUT_S:.0f} s") from None
    arch, _, name = done.stdout.partition("\n")
    if done.returncode != 0 or not arch.startswith("gfx"):
        lines = done.stderr.strip().splitlines()
        raise DeviceError(f"no HIP device: {lines[-1][:200] if lines else 'no answer'}")
    return arch, name


def _replay_steps(device: Device, arch: str, folder: Path) -> Iterator[SelfTestStep]:
    try:
        bundle = write_self_test(folder, arch)
        with ReplaySession(bundle, device=device, timeout_s=_LAUNCH_TIMEOUT_S) as session:
            k0 = session.k0
            yield _expect("memory, arguments, launch, golden output", k0, Status.PASSED)
            if not k0.verdict.has_passed:
                return
            if device.kind is DeviceKind.HIP:
                yield _check_times(k0)
            yield from _candidate_steps(session, arch, folder)
    except AsmevoError as error:
        yield SelfTestStep(name="replay", problem=str(error))


def _candidate_steps(session: ReplaySession, arch: str, folder: Path) -> Iterator[SelfTestStep]:
    def run(store: str) -> ObjectResult:
        path = folder / "candidate.hsaco"
        path.write_bytes(assemble_self_test(arch, store))
        return session.run(path)

    yield _expect("an equal kernel passes", run(f"  s_nop 0\n{STORE}"), Status.PASSED)
    wrong = f"  v_add_f32_e32 v3, 1.0, v3\n{STORE}"
    yield _expect("a wrong value is seen", run(wrong), Status.DIVERGENT)
    past = f"{STORE}\n{STORE} offset:{4 * COUNT - 256}"
    yield _expect("a store past the end is seen", run(past), Status.DIVERGENT)
    hang = f"{STORE}\n.Lhang:\n  s_sleep 1\n  s_branch .Lhang"
    yield _expect("a hanging kernel is ended", run(hang), Status.TIMED_OUT, Status.RUNTIME_FAILURE)
    wild = "  s_mov_b32 s4, 0x10000\n  s_mov_b32 s5, 0\n" + STORE
    yield _expect("a fault costs one candidate", run(wild), Status.RUNTIME_FAILURE)
    again = run(f"  s_nop 1\n{STORE}")
    yield _expect("the next kernel passes again", again, Status.PASSED)


def _expect(name: str, result: ObjectResult, *expected: Status) -> SelfTestStep:
    verdict = result.verdict
    if verdict.status not in expected:
        reason = f": {verdict.reasons[0]}" if verdict.reasons else ""
        return SelfTestStep(name=name, problem=f"{verdict.status}{reason}")
    return SelfTestStep(name=name, found=verdict.reasons[0] if verdict.reasons else "yes")


def _check_times(k0: ObjectResult) -> SelfTestStep:
    name, measurement = "launches are timed by events", k0.measurement
    if measurement is None or not measurement.measured_ms or min(measurement.measured_ms) < 0:
        return SelfTestStep(name=name, problem="no usable times")
    spread = "" if measurement.variation is None else f", variation {measurement.variation:.1%}"
    middle = statistics.median(measurement.measured_ms)
    count = len(measurement.measured_ms)
    return SelfTestStep(name=name, found=f"{middle:.4f} ms, median of {count}{spread}")
