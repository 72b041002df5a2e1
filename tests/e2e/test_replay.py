"""Bundles of a hand-written kernel, replayed on the emulated device."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_bundle import Buffer, write_small_bundle

from asmevo.capture.manifest import RegionKind
from asmevo.codeobject import toolchain
from asmevo.errors import ReplayError
from asmevo.replay.device import Device
from asmevo.replay.elements import ElementType
from asmevo.replay.engine import ReplaySession, replay
from asmevo.replay.region_types import TypeHints
from asmevo.verdict import Status

_SOURCE = (Path(__file__).parents[1] / "fixtures" / "scale.s").read_text()
_OUT, _X = 0x7E0000000000, 0x7E0000002000
_COUNT = 256
_BYTES = 4 * _COUNT
_FACTOR = np.float32(3)
_FIRST_OTHER = 37
"""The first element for which 3 * x is not 3 + x."""

Build = Callable[..., Path]


def _inputs() -> np.ndarray[Any, np.dtype[np.float32]]:
    x = np.arange(_COUNT, dtype=np.float32) * np.float32(0.5)
    x[:_FIRST_OTHER] = 1.5
    return x


def _assemble(*edits: tuple[str, str], arch: str = "gfx942") -> bytes:
    text = _SOURCE.replace("gfx942", arch)
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return toolchain.link(toolchain.assemble(text, arch))


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Writes a candidate: the kernel with some of its lines changed."""

    def write(name: str, *edits: tuple[str, str], arch: str = "gfx942") -> Path:
        path = tmp_path / f"{name}.hsaco"
        path.write_bytes(_assemble(*edits, arch=arch))
        return path

    return write


def _write_bundle(
    path: Path,
    *,
    code_object: bytes | None = None,
    golden: np.ndarray[Any, np.dtype[np.float32]] | None = None,
    has_golden: bool = True,
    out: int = _OUT,
    x_kind: RegionKind = RegionKind.DEVICE,
) -> Path:
    x = _inputs()
    expected = (x * _FACTOR if golden is None else golden).tobytes()
    return write_small_bundle(
        path,
        kernel="scale",
        code_object=code_object or _assemble(),
        buffers=[
            Buffer(address=out, before=bytes(_BYTES), after=expected if has_golden else None),
            Buffer(
                address=_X,
                before=x.tobytes(),
                after=x.tobytes() if has_golden else None,
                kind=x_kind,
            ),
        ],
        scalars=_FACTOR.tobytes(),
        grid=(_COUNT // 64, 1, 1),
    )


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return _write_bundle(tmp_path / "scale.aeb")


@pytest.fixture
def device() -> Device:
    return Device.parse("emulated")


_MULTIPLY = "v_mul_f32_e32 v2, s8, v2"
_ADD = (_MULTIPLY, "v_add_f32_e32 v2, s8, v2")
_HANG = (_MULTIPLY, "v_mul_f32_e32 v2, s8, v2\n.Lhang:\n  s_add_u32 s9, s9, 1\n  s_branch .Lhang")
_WILD_STORE = ("global_store_dword v1, v2, s[4:5]", "global_store_dword v1, v2, s[0:1] offset:-64")
_STORE_PAST_END = (
    "global_store_dword v1, v2, s[4:5]",
    "global_store_dword v1, v2, s[4:5]\n  global_store_dword v1, v2, s[4:5] offset:8",
)


@pytest.mark.parametrize(
    "kind", [kind for kind in RegionKind if kind is not RegionKind.MODULE_GLOBAL]
)
def test_replay_of_k0_is_identical_to_golden_output_and_itself(
    tmp_path: Path, device: Device, kind: RegionKind
) -> None:
    path = _write_bundle(tmp_path / "scale.aeb", x_kind=kind)

    result = replay(path, [], device=device)

    assert result.k0.verdict.reasons == ()
    assert [item.against for item in result.k0.comparisons] == ["golden output", "K0"]
    for comparison in result.k0.comparisons:
        assert (comparison.regions, comparison.bytes_compared) == (2, 2 * _BYTES)
        assert comparison.guard_bytes == 2 * (4096 - _BYTES)
    measurement = result.k0.measurement
    assert measurement is not None
    assert measurement.modelled_cycles
    assert measurement.wave_instructions == 11 * _COUNT // 64
    assert measurement.measured_ms == ()


def test_replay_without_golden_output_compares_k0_with_itself(
    tmp_path: Path, device: Device
) -> None:
    path = _write_bundle(tmp_path / "scale.aeb", has_golden=False)

    result = replay(path, [], device=device)

    assert result.verdict.has_passed
    assert [item.against for item in result.k0.comparisons] == ["K0"]


def test_replay_of_k0_that_misses_golden_output_judges_no_candidate(
    tmp_path: Path, device: Device, build: Build
) -> None:
    golden = _inputs() * _FACTOR
    golden[100] = -1
    path = _write_bundle(tmp_path / "scale.aeb", golden=golden)

    result = replay(
        path, [build("same")], device=device, types=TypeHints(everywhere=ElementType.F32)
    )

    assert result.k0.verdict.status is Status.DIVERGENT
    first = result.k0.comparisons[0].first_difference
    assert first is not None
    assert (first.element_index, first.expected) == (100, "0xbf800000 (-1)")
    assert result.candidates[0].verdict.status is Status.UNSUPPORTED


def test_replay_of_candidate_with_same_result_passes(
    bundle: Path, device: Device, build: Build
) -> None:
    candidate = build("vop3", (_MULTIPLY, "v_mul_f32_e64 v2, v2, s8"))

    result = replay(bundle, [candidate], device=device, repeats=2)

    assert result.candidates[0].verdict.reasons == ()
    assert [item.against for item in result.candidates[0].comparisons] == ["K0", "K0"]
    assert result.verdict.has_passed


def test_replay_of_candidate_changed_in_one_instruction_names_first_difference(
    bundle: Path, device: Device, build: Build
) -> None:
    result = replay(
        bundle, [build("add", _ADD)], device=device, types=TypeHints(everywhere=ElementType.F32)
    )

    (candidate,) = result.candidates
    assert candidate.verdict.status is Status.DIVERGENT
    first = candidate.comparisons[0].first_difference
    assert first is not None
    assert (first.region, first.argument) == (0, "out (kernarg +0)")
    assert first.address == _OUT + 4 * _FIRST_OTHER
    assert (first.byte_offset, first.element_index) == (4 * _FIRST_OTHER, _FIRST_OTHER)
    assert (first.expected, first.actual) == ("0x425e0000 (55.5)", "0x41ac0000 (21.5)")
    assert first.differing_elements == _COUNT - _FIRST_OTHER
    assert result.k0.verdict.has_passed


def test_replay_of_faulting_candidate_fails_with_report_and_next_one_runs(
    bundle: Path, device: Device, build: Build
) -> None:
    result = replay(bundle, [build("wild", _WILD_STORE), build("same")], device=device)

    wild, same = result.candidates
    assert wild.verdict.status is Status.RUNTIME_FAILURE
    text = "\n".join(wild.verdict.reasons)
    assert "(719)" in text
    assert "global_store_dword" in text
    assert same.verdict.has_passed


def test_replay_of_candidate_that_writes_past_a_region_is_divergent(
    bundle: Path, device: Device, build: Build
) -> None:
    result = replay(bundle, [build("past", _STORE_PAST_END)], device=device)

    (candidate,) = result.candidates
    assert not candidate.verdict.has_passed
    guard = candidate.comparisons[0].guard_difference
    assert guard is not None
    assert (guard.address, guard.nearest_region, guard.distance) == (_OUT + _BYTES, 0, 0)
    assert guard.differing_bytes == 8


def test_replay_of_k0_that_reads_past_a_region_differs_from_itself(
    tmp_path: Path, device: Device
) -> None:
    reads_on = _assemble(
        (
            "global_load_dword v2, v1, s[6:7]",
            "global_load_dword v2, v1, s[6:7] offset:4",
        )
    )
    path = _write_bundle(tmp_path / "scale.aeb", code_object=reads_on, has_golden=False)

    result = replay(path, [], device=device)

    assert result.k0.verdict.status is Status.DIVERGENT
    first = result.k0.comparisons[-1].first_difference
    assert first is not None
    assert first.element_index == _COUNT - 1


def test_replay_of_hanging_candidate_times_out_and_next_one_runs(
    bundle: Path, device: Device, build: Build
) -> None:
    candidates = [build("hang", _HANG), build("add", _ADD), build("same")]

    result = replay(bundle, candidates, device=device, timeout_s=1.0)

    statuses = [item.verdict.status for item in result.candidates]
    assert statuses == [Status.TIMED_OUT, Status.DIVERGENT, Status.PASSED]
    assert result.candidates[0].verdict.reasons == ("the launch took over 1 s",)


def _workers() -> Iterator[int]:
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"asmevo.replay.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                yield int(child)


def _wait_until_busy(pid: int) -> None:
    """Return when the process has computed for 0.3 s more: it is in its endless launch."""
    idle = _cpu_seconds(pid)
    while _cpu_seconds(pid) < idle + 0.3:
        time.sleep(0.02)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_replay_with_killed_worker_fails_that_candidate_only(
    bundle: Path, device: Device, build: Build
) -> None:
    hang, same = build("hang", _HANG), build("same")

    with ReplaySession(bundle, device=device, timeout_s=30) as session:
        assert session.k0.verdict.has_passed
        (worker,) = _workers()

        def kill() -> None:
            _wait_until_busy(worker)
            os.kill(worker, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        killed = session.run(hang)
        killer.join()
        after = session.run(same)

    assert killed.verdict.status is Status.RUNTIME_FAILURE
    assert "signal 9 (SIGKILL)" in killed.verdict.reasons[0]
    assert after.verdict.has_passed


def test_replay_session_outlives_the_thread_that_started_it(
    bundle: Path, device: Device, build: Build
) -> None:
    with ReplaySession(bundle, device=device) as session:
        starter = threading.Thread(target=lambda: session.k0)
        starter.start()
        starter.join()

        result = session.run(build("same"))

    assert result.verdict.has_passed


def test_replay_worker_of_killed_engine_ends_while_it_launches(bundle: Path, build: Build) -> None:
    command = [sys.executable, "-m", "asmevo", "replay", str(bundle), "--hsaco"]
    with subprocess.Popen([*command, str(build("hang", _HANG))]) as engine:
        worker = _wait_for_launching_child(engine.pid)
        engine.kill()

    deadline = time.monotonic() + 10
    while _is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_running(worker)


def _is_running(pid: int) -> bool:
    """False for a zombie too, which waits for whoever is to collect it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _wait_for_launching_child(pid: int) -> int:
    """The child of a process, once it has used two seconds of processor time: it hangs."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if b"asmevo.replay.worker" not in Path(f"/proc/{child}/cmdline").read_bytes():
                continue
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            if int(fields[11]) / os.sysconf("SC_CLK_TCK") > 2:
                return int(child)
        time.sleep(0.1)
    raise AssertionError("the candidate did not hang")


def test_replay_of_faulting_k0_reports_it_and_judges_no_candidate(
    tmp_path: Path, device: Device, build: Build
) -> None:
    path = _write_bundle(tmp_path / "scale.aeb", code_object=_assemble(_WILD_STORE))

    result = replay(path, [build("same")], device=device)

    assert result.k0.verdict.status is Status.RUNTIME_FAILURE
    assert result.candidates[0].verdict.status is Status.UNSUPPORTED


@pytest.mark.parametrize("flaw", ["other arch", "truncated", "no kernel", "other arguments"])
def test_replay_of_unfit_candidate_is_rejected_before_launch(
    bundle: Path, device: Device, build: Build, flaw: str
) -> None:
    if flaw == "other arch":
        path = build("gfx90a", arch="gfx90a")
    elif flaw == "no kernel":
        path = build("renamed")
        path.write_bytes(path.read_bytes().replace(b"scale", b"other"))
    elif flaw == "other arguments":
        path = build("longer", ("    .kernarg_segment_size: 20", "    .kernarg_segment_size: 24"))
    else:
        path = build("cut")
        path.write_bytes(path.read_bytes()[:-100])

    result = replay(bundle, [path], device=device)

    (candidate,) = result.candidates
    assert candidate.verdict.status is Status.STATIC_REJECTED
    assert len(candidate.verdict.reasons) == 1
    assert candidate.measurement is None


def _map_in_workers(folder: Path, monkeypatch: pytest.MonkeyPatch, address: int) -> None:
    """Make Python processes started from now on map a page at an address, as their libraries do."""
    (folder / "sitecustomize.py").write_text(
        "import ctypes\n"
        "mmap = ctypes.CDLL(None).mmap\n"
        "number = ctypes.c_long\n"
        "mmap.argtypes = [number, number, ctypes.c_int, ctypes.c_int, ctypes.c_int, number]\n"
        f"mmap({address}, 4096, 3, 0x100022, -1, 0)\n"
    )
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.setenv("PYTHONPATH", path)


def test_replay_keeps_its_addresses_from_what_python_loads(
    tmp_path: Path, bundle: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    _map_in_workers(tmp_path, monkeypatch, _X)

    assert replay(bundle, [], device=device).verdict.has_passed


def test_replay_of_candidate_that_writes_into_the_worker_fails(
    tmp_path: Path,
    bundle: Path,
    device: Device,
    build: Build,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _map_in_workers(tmp_path, monkeypatch, 0x7D0000000000)
    store = "global_store_dword v1, v2, s[4:5]"
    stray = "s_mov_b32 s10, 0\n  s_mov_b32 s11, 0x7d00\n  global_store_dword v1, v2, s[10:11]"

    result = replay(bundle, [build("stray", (store, f"{store}\n  {stray}"))], device=device)

    assert result.k0.verdict.has_passed
    assert result.candidates[0].verdict.status is Status.RUNTIME_FAILURE


def test_replay_at_address_that_no_process_can_map_fails_naming_it(
    tmp_path: Path, device: Device
) -> None:
    path = _write_bundle(tmp_path / "scale.aeb", out=1 << 63)

    with pytest.raises(ReplayError, match="0x8000000000000000"):
        replay(path, [], device=device)


def _damage_content(bundle: Path, entry: str) -> None:
    """Flip a bit of the last byte of an entry; the ZIP directory stays right."""
    with zipfile.ZipFile(bundle) as archive:
        names = archive.namelist()
        following = archive.getinfo(names[names.index(entry) + 1]).header_offset
    data = bytearray(bundle.read_bytes())
    data[following - 40] ^= 1
    bundle.write_bytes(data)


def _run_command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "asmevo", "replay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_replay_command_with_identical_candidate_exits_0(bundle: Path, build: Build) -> None:
    done = _run_command(bundle, "--hsaco", build("same"))

    assert done.returncode == 0, done.stderr
    assert "K0: identical to golden output and K0 (2 regions, 2,048 bytes" in done.stdout
    assert "modelled" in done.stdout


def test_replay_of_a_bundle_that_claims_more_than_the_memory_is_refused(
    bundle: Path, tmp_path: Path, device: Device
) -> None:
    huge = tmp_path / "huge.aeb"
    with zipfile.ZipFile(bundle) as source, zipfile.ZipFile(huge, "w") as target:
        for info in source.infolist():
            data = source.read(info)
            if info.filename == "manifest.json":
                data = data.replace(b'"size_bytes": %d,' % _BYTES, b'"size_bytes": %d,' % (1 << 40))
                data = data.replace(b'"address": %d,' % _OUT, b'"address": %d,' % (1 << 42))
            target.writestr(info, data)

    with pytest.raises(ReplayError, match="available on this machine"):
        ReplaySession(huge, device=device)


def test_replay_command_with_divergent_candidate_exits_1_and_says_where(
    bundle: Path, build: Build
) -> None:
    done = _run_command(bundle, "--hsaco", build("add", _ADD), "--json", "--dtype", "f32")

    assert done.returncode == 1
    result = json.loads(done.stdout)
    (difference,) = result["candidates"][0]["comparisons"][0]["differences"]
    assert difference["element_index"] == _FIRST_OTHER
    assert difference["address"] == _OUT + 4 * _FIRST_OTHER


@pytest.mark.parametrize("bad", ["bundle", "content", "hsaco", "missing", "dtype", "device"])
def test_replay_command_with_bad_input_exits_2_with_one_line(
    tmp_path: Path, bundle: Path, build: Build, bad: str
) -> None:
    arguments: list[str | Path] = [bundle, "--hsaco", build("same")]
    if bad == "bundle":
        bundle.write_bytes(bundle.read_bytes()[:200])
    elif bad == "content":
        _damage_content(bundle, "region-0000.after.zst")
    elif bad == "hsaco":
        arguments[2] = build("gfx90a", arch="gfx90a")
    elif bad == "missing":
        arguments[2] = tmp_path / "absent.hsaco"
    elif bad == "dtype":
        arguments += ["--dtype", "f33"]
    else:
        arguments += ["--device", "abacus"]

    done = _run_command(*arguments)

    assert done.returncode == 2
    assert done.stderr.startswith("asmevo: ")
    assert done.stderr.count("\n") == 1


def test_replay_without_hip_runtime_fails_with_one_line(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    if Path("/opt/rocm").exists():
        pytest.skip("this machine has ROCm")

    done = _run_command(bundle, "--device", "hip:0")

    assert done.returncode == 4
    assert done.stderr.startswith("asmevo: no HIP runtime: ")
    assert done.stderr.count("\n") == 1
