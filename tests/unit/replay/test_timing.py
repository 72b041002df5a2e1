"""Timed launches on a device that only notes what it is asked to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from asmevo.replay.device import Device
from asmevo.replay.hip_runtime import Kernel
from asmevo.replay.options import CacheState, OracleOptions
from asmevo.replay.proof import describe_proof, find_proof, write_proof
from asmevo.replay.records import Measurement
from asmevo.replay.timing import Timer


class _Notes:
    """Stands for runtime, memory and launcher."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._time = 0.0

    def restore(self) -> None:
        self.calls.append("restore")

    def find_globals(self, kernel: object) -> None:
        pass

    def time(self, kernel: object) -> float:
        self.calls.append(str(kernel))
        self._time += 1
        return self._time

    def create_memory(self, size_bytes: int) -> str:
        assert size_bytes > 288 << 20
        return "memory"

    def reserve(self, size_bytes: int) -> int:
        return 1 << 40

    def map_memory(self, address: int, memory: str) -> None:
        self.calls.append("map")

    def fill(self, address: int, byte: int, size_bytes: int) -> None:
        self.calls.append("flush")

    def unmap_memory(self, address: int, memory: str) -> None:
        self.calls.append("unmap")

    def release(self, address: int, memory: str) -> None:
        self.calls.append("release")


def _time(options: OracleOptions) -> tuple[Any, list[str]]:
    notes = _Notes()
    anything = cast(Any, notes)
    timer = Timer(anything, anything, anything, options)
    return timer.time_pair(cast(Kernel, "k0"), cast(Kernel, "new")), notes.calls


def test_timer_alternates_kernels_and_who_is_first_on_restored_memory() -> None:
    times, calls = _time(OracleOptions(warm_up=1, timing_rounds=2))

    assert calls[0::2] == ["restore"] * 6
    assert calls[1::2] == ["k0", "new", "new", "k0", "k0", "new"]
    assert times.k0_ms == (4, 5)
    assert times.candidate_ms == (3, 6)


def test_timer_with_cold_caches_flushes_between_restoring_and_launching() -> None:
    _, calls = _time(OracleOptions(warm_up=0, timing_rounds=1, caches=CacheState.COLD))

    assert calls == ["map", "restore", "flush", "k0", "restore", "flush", "new", "unmap", "release"]


def test_measurement_gives_variation_and_speedup_of_medians() -> None:
    measured = Measurement(measured_ms=(1.0, 2.0, 3.0), k0_ms=(4.0, 5.0, 9.0), caches="cold")

    assert measured.variation == pytest.approx(0.5)
    assert measured.speedup == 2.5
    assert Measurement.from_json(measured.to_json()) == measured
    assert Measurement(modelled_cycles=3).speedup is None


def test_proof_is_found_for_its_device_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASMEVO_CACHE", str(tmp_path))
    device, other = Device.parse("hip:0"), Device.parse("hip:1")

    assert "asmevo doctor --device hip:0" in describe_proof(device)[0]
    write_proof(device, "AMD Instinct MI300X")

    assert find_proof(device) == "AMD Instinct MI300X"
    assert describe_proof(device) == ()
    assert describe_proof(other)
    assert describe_proof(Device.parse("emulated")) == ()
