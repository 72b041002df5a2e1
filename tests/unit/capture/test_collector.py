"""The collector against a scripted target."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from asmevo.capture.bundle import Moment, open_bundle
from asmevo.capture.collector import collect
from asmevo.capture.control_block import (
    CONTROL_VERSION,
    Control,
    ControlBlock,
    RecordStatus,
    State,
    Verdict,
)
from asmevo.capture.loaded_objects import LoadedKernel
from asmevo.capture.outcome import CaptureOptions, CaptureResult, find_failure
from asmevo.capture.target_process import ProcessMemory, TargetProcess
from asmevo.codeobject.code_object import CodeObject
from asmevo.errors import TargetError

OUT, SOURCE = 0x2000_0000_0000, 0x2000_0001_0000


class FakeObjects:
    def __init__(self, kernels: list[LoadedKernel]) -> None:
        self.kernels = kernels

    def read_ahead(self, limit_s: float) -> None:
        pass

    def forget(self) -> None:
        pass

    def find_kernels(self, name: str) -> tuple[LoadedKernel, ...]:
        return tuple(one for one in self.kernels if one.kernel.name == name)


class FakeTarget:
    """Launches one function of each name for ever, once hooked."""

    def __init__(self, kernels: list[LoadedKernel], *names: str) -> None:
        memory = mmap.mmap(-1, ctypes.sizeof(Control))
        struct.pack_into("=IIQ", memory, 0, CONTROL_VERSION, State.IDLE, len(memory))
        self.control = ControlBlock(memory)
        self.control.fields.generation = 1
        self.process = TargetProcess(pid=os.getpid(), hip_paths=(), command=("fake",))
        self.memory = ProcessMemory(os.getpid())
        self.objects: Any = FakeObjects(kernels)
        self.data = mmap.mmap(-1, 4096)
        self.is_alive = True
        self.reserved: list[int] = []
        self.names = names
        self.refusal = b""
        self.need_bytes = 16
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._launch_for_ever)

    def reserve(self, size: int) -> None:
        self.reserved.append(size)
        self.data = mmap.mmap(-1, max(size, 4096))

    def hook(self) -> int:
        seen = self.control.fields.statistics[7]
        seen.name_hash, seen.name, seen.name_bytes = 1, b"other", 5
        self._thread.start()
        return 1

    def start(self) -> None:
        pass

    def forget_functions(self) -> None:
        pass

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _launch_for_ever(self) -> None:
        while not self._stop.is_set():
            for index, name in enumerate(self.names):
                deadline = time.monotonic() + 0.05
                while self.control.state is not State.ARMED and time.monotonic() < deadline:
                    time.sleep(0.0005)
                if self.control.state is State.ARMED:
                    self._launch(index, name)

    def _launch(self, index: int, name: str) -> None:
        fields = self.control.fields
        verdict = fields.functions[index].verdict & 0xFFFFFFFF
        if verdict == Verdict.UNWANTED:
            return
        self.control.set_state(State.BUSY)
        record = fields.record
        record.function, record.function_index, record.generation = 0x1000 + index, index, 1
        record.name, record.name_bytes = name.encode(), len(name)
        record.attributes[:] = [-1] * 8
        record.launch_slot = 308
        record.grid[:], record.block[:] = [2, 1, 1], [64, 1, 1]
        record.need_bytes = self.need_bytes
        if verdict != Verdict.WANTED:
            record.status = RecordStatus.QUESTION
        elif self.refusal:
            record.status, record.reason = RecordStatus.REFUSED, self.refusal
        elif self.need_bytes > len(self.data):
            record.status = RecordStatus.NEED_SPACE
        else:
            self._snapshot()
        self.control.set_state(State.READY)

    def _snapshot(self) -> None:
        record = self.control.fields.record
        kernarg = struct.pack("=QQf", OUT, SOURCE + 4, 2.0)
        record.kernarg_bytes = len(kernarg)
        record.kernarg[: len(kernarg)] = list(kernarg)
        record.handle = record.function
        record.has_after, record.graph_node = 1, -1
        record.pointer_regions[:5] = [0, -1, 1, -1, -1]
        for index, address in enumerate((OUT, SOURCE)):
            region = record.regions[index]
            region.address, region.size, region.kind = address, 8, 0
            region.before, region.after = 16 * index, 16 * index + 8
        self.data[:32] = b"before-0after--0same---1same---1"
        record.region_count = 2
        record.status = RecordStatus.CAPTURED


class Silent:
    def captured(self, captured: object) -> None:
        pass

    def refused(self, kernel: str, reason: str) -> None:
        pass


@pytest.fixture
def kernels(scale_objects: tuple[bytes, bytes]) -> list[LoadedKernel]:
    one = CodeObject.read(scale_objects[0])
    return [LoadedKernel(code_object=one, kernel=one.kernels[0], load_bias=0)]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., CaptureResult]]:
    targets = []

    def run(target: FakeTarget, *globs: str, count: int = 1, timeout_s: float = 20) -> Any:
        targets.append(target)
        options = CaptureOptions(
            globs=globs, count=count, timeout_s=timeout_s, max_bytes=1 << 30, output=tmp_path
        )
        return collect(target, options, Silent())

    yield run
    for target in targets:
        target.stop()


Run = Callable[..., CaptureResult]


def test_wanted_kernel_becomes_bundles_until_the_count(
    run: Run, kernels: list[LoadedKernel]
) -> None:
    result = run(FakeTarget(kernels, "scale"), "scale", count=3)

    assert [one.path.name for one in result.captured] == [f"scale-00{i}.aeb" for i in range(3)]
    with open_bundle(result.captured[2].path) as bundle:
        bundle.verify()
        manifest = bundle.manifest
        assert bundle.code_object() == kernels[0].code_object.data
        assert manifest.capture.ordinal == 2
        assert manifest.dispatch.launch_function == "hipModuleLaunchKernel"
        assert [r.pointers[0].region_offset for r in manifest.regions] == [0, 4]
        assert bundle.region_bytes(manifest.regions[0], Moment.BEFORE) == b"before-0"
        assert bundle.region_bytes(manifest.regions[0], Moment.AFTER) == b"after--0"
        assert manifest.regions[1].after == manifest.regions[1].before


def test_bundles_of_an_earlier_capture_are_kept(run: Run, kernels: list[LoadedKernel]) -> None:
    first = run(FakeTarget(kernels, "scale"), "scale")
    second = run(FakeTarget(kernels, "scale"), "scale")

    assert first.captured[0].path != second.captured[0].path


def test_bundles_of_captures_at_one_time_are_all_kept(
    run: Run, kernels: list[LoadedKernel]
) -> None:
    with ThreadPoolExecutor(2) as pool:
        targets = [FakeTarget(kernels, "scale") for _ in range(2)]
        results = list(pool.map(lambda target: run(target, "scale", count=25), targets))

    paths = {one.path for result in results for one in result.captured}
    assert len(paths) == 50


def test_dispatch_that_needs_memory_gets_it(run: Run, kernels: list[LoadedKernel]) -> None:
    target = FakeTarget(kernels, "scale")
    target.need_bytes = 1 << 20

    result = run(target, "scale")

    assert target.reserved == [1 << 20]
    assert len(result.captured) == 1


def test_dispatch_larger_than_the_machine_is_given_up(
    run: Run, kernels: list[LoadedKernel]
) -> None:
    target = FakeTarget(kernels, "scale")
    target.need_bytes = 1 << 60

    result = run(target, "scale")

    assert result.captured == ()
    assert "are free on this machine" in result.refused[0][1]
    assert target.reserved == []


def test_kernel_that_is_always_refused_is_given_up_with_the_reason(
    run: Run, kernels: list[LoadedKernel]
) -> None:
    target = FakeTarget(kernels, "scale")
    target.refusal = b"its stream is being captured into a graph"

    result = run(target, "scale")

    assert str(find_failure(result)) == (
        "no dispatch could be captured: scale: its stream is being captured into a graph"
    )


def test_kernel_without_a_code_object_is_refused(run: Run) -> None:
    result = run(FakeTarget([], "scale"), "scale")

    assert result.refused == (("scale", "no loaded code object defines it"),)


def test_time_that_runs_out_gives_what_there_is(run: Run, kernels: list[LoadedKernel]) -> None:
    result = run(FakeTarget(kernels, "scale"), "scale", "never", timeout_s=1)

    assert len(result.captured) == 1
    assert str(find_failure(result)) == "no kernel matched never (kernels seen: other)"


def test_kernel_launched_too_seldom_is_incomplete(run: Run, kernels: list[LoadedKernel]) -> None:
    result = run(FakeTarget(kernels, "scale"), "scale", count=10**6, timeout_s=0.5)

    assert result.incomplete == (("scale", len(result.captured)),)
    assert find_failure(result) is None


def test_target_that_ends_is_an_error(run: Run, kernels: list[LoadedKernel]) -> None:
    target = FakeTarget(kernels)
    threading.Timer(0.1, lambda: setattr(target, "is_alive", False)).start()

    with pytest.raises(TargetError, match="ended during the capture"):
        run(target, "scale")


def test_hooks_that_took_themselves_out_are_an_error(run: Run, kernels: list[LoadedKernel]) -> None:
    target = FakeTarget(kernels)
    threading.Timer(0.1, lambda: target.control.set_state(State.CLOSED)).start()

    with pytest.raises(TargetError, match="took themselves out"):
        run(target, "scale")


def test_record_that_points_outside_the_data_is_refused(
    run: Run, kernels: list[LoadedKernel]
) -> None:
    class Lying(FakeTarget):
        def _snapshot(self) -> None:
            super()._snapshot()
            self.control.fields.record.regions[1].after = 1 << 40

    result = run(Lying(kernels, "scale"), "scale")

    assert result.captured == ()
    assert result.refused == (("scale", "the target's control block is damaged"),)


def test_nothing_matched_names_kernels_seen() -> None:
    result = CaptureResult(
        captured=(),
        refused=(),
        unmatched=("a*", "b"),
        incomplete=(),
        seen=tuple(f"kernel_{i}" for i in range(7)),
    )

    assert str(find_failure(result)) == (
        "no kernel matched a*, b (kernels seen: kernel_0, kernel_1, kernel_2, kernel_3, kernel_4 "
        "and 2 more)"
    )
