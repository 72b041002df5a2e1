"""The policy `touched` against a scripted tracer: what is kept, asked for again, or refused."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from asmevo.capture.bundle import Moment, open_bundle
from asmevo.capture.bundle_writer import BundleWriter
from asmevo.capture.control_block import CONTROL_VERSION, Control, ControlBlock, Record
from asmevo.capture.loaded_objects import LoadedKernel
from asmevo.capture.manifest import AddressRange, Policy
from asmevo.capture.outcome import CaptureOptions
from asmevo.capture.page_search import PageSearch
from asmevo.capture.target_process import TargetProcess
from asmevo.capture.touched import Touched
from asmevo.codeobject.code_object import CodeObject
from asmevo.errors import CaptureError

PAGE = 4096
SMALL, HUGE = 0x2000_0000_0000, 0x2100_0000_0000  # one is copied whole, one is not copied at first
HUGE_BYTES = 1 << 30


class Tracer:
    def __init__(self, *answers: Touched) -> None:
        self.answers = list(answers)
        self.absent: list[int] = []

    def trace(self, bundle: Path, absent: Sequence[AddressRange]) -> Touched:
        self.absent = [one.address for one in absent]
        with open_bundle(bundle) as opened:
            opened.verify()
        return self.answers.pop(0)


def touched(*addresses: int, is_golden: bool | None = True) -> Touched:
    pages = tuple(AddressRange(address=address, size_bytes=PAGE) for address in sorted(addresses))
    return Touched(pages=pages, is_golden=is_golden)


class Case:
    def __init__(self, folder: Path, image: bytes, tracer: Tracer) -> None:
        self.folder = folder
        memory = mmap.mmap(-1, ctypes.sizeof(Control))
        struct.pack_into("=IIQ", memory, 0, CONTROL_VERSION, 1, len(memory))
        self.control = ControlBlock(memory)
        self.data = mmap.mmap(-1, 64 * PAGE)
        self.data[:] = bytes(range(64)) * PAGE
        one = CodeObject.read(image)
        self.loaded = LoadedKernel(code_object=one, kernel=one.kernels[0], load_bias=0)
        process = TargetProcess(pid=os.getpid(), hip_paths=(), command=("fake",))
        options = CaptureOptions(
            globs=("*",),
            count=1,
            timeout_s=1,
            max_bytes=1 << 40,
            output=folder,
            policy=Policy.TOUCHED,
        )
        self.search = PageSearch(tracer, BundleWriter(process, options), self.control)

    def write(self, *present: tuple[int, int], has_absent: bool = True) -> Path | None:
        """A dispatch with so many pages copied at each address."""
        record = Record(launch_slot=308, kernarg_bytes=20, graph_node=-1, has_after=1)
        record.grid[:], record.block[:] = [1, 1, 1], [64, 1, 1]
        record.pointer_regions[:5] = [-1] * 5
        at = 0
        for index, (address, pages) in enumerate(present):
            region = record.regions[index]
            region.address, region.size = address, pages * PAGE
            region.before = region.after = at
            at += pages * PAGE
        record.region_count = len(present)
        if has_absent:
            record.absent[0].address, record.absent[0].size = HUGE, HUGE_BYTES
            record.absent_count = 1
        return self.search.write(record, self.data, self.loaded, 0, 5)

    @property
    def wanted(self) -> list[tuple[int, int, int]]:
        fields = self.control.fields
        ranges = fields.wanted_ranges[: fields.wanted_range_count]
        return [(int(one.address), int(one.size), int(one.layout)) for one in ranges]


def test_touched_pages_only_are_kept(tmp_path: Path, scale_objects: tuple[bytes, bytes]) -> None:
    tracer = Tracer(touched(SMALL + 20 * PAGE, SMALL + 21 * PAGE))
    case = Case(tmp_path, scale_objects[0], tracer)

    path = case.write((SMALL, 40), has_absent=False)

    assert path is not None
    with open_bundle(path) as bundle:
        (region,) = bundle.manifest.regions
        assert (region.address, region.size_bytes) == (SMALL + 20 * PAGE, 2 * PAGE)
        assert bundle.region_bytes(region, Moment.BEFORE) == case.data[20 * PAGE : 22 * PAGE]
        assert bundle.manifest.capture.policy is Policy.TOUCHED
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_missing_pages_are_wanted_until_nothing_is_missing(
    tmp_path: Path, scale_objects: tuple[bytes, bytes]
) -> None:
    first, second = HUGE + 100 * PAGE, HUGE + 200 * PAGE
    tracer = Tracer(touched(SMALL, first), touched(SMALL, second), touched(SMALL, second))
    case = Case(tmp_path, scale_objects[0], tracer)

    assert case.write((SMALL, 4)) is None
    assert tracer.absent == [HUGE]
    assert case.wanted == [(first, PAGE, 5)]
    assert case.write((SMALL, 4), (first, 1)) is None
    assert case.wanted == [(first, PAGE, 5), (second, PAGE, 5)]
    path = case.write((SMALL, 4), (first, 1), (second, 1))

    assert path is not None
    with open_bundle(path) as bundle:
        assert [r.address for r in bundle.manifest.regions] == [SMALL, second]


def test_pages_that_never_stay_are_given_up(
    tmp_path: Path, scale_objects: tuple[bytes, bytes]
) -> None:
    tracer = Tracer(*(touched(HUGE + 64 * i * PAGE) for i in range(20)))
    case = Case(tmp_path, scale_objects[0], tracer)

    with pytest.raises(CaptureError, match="other pages of large allocations at each launch"):
        for _ in range(20):
            assert case.write((SMALL, 1)) is None

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "answer",
    [Touched(problem="unknown instruction"), touched(SMALL, is_golden=False)],
    ids=["cannot be executed", "other output"],
)
def test_what_cannot_be_cut_is_kept_whole_if_it_is_there(
    tmp_path: Path, scale_objects: tuple[bytes, bytes], answer: Touched
) -> None:
    case = Case(tmp_path, scale_objects[0], Tracer(answer, answer))

    path = case.write((SMALL, 4), has_absent=False)

    assert path is not None
    with open_bundle(path) as bundle:
        assert bundle.manifest.regions[0].size_bytes == 4 * PAGE
        assert bundle.manifest.capture.policy is Policy.ALLOCATION
    with pytest.raises(CaptureError, match="cannot be found by executing it"):
        case.write((SMALL, 4))


def test_dispatch_that_runs_beyond_its_memory_is_refused(
    tmp_path: Path, scale_objects: tuple[bytes, bytes]
) -> None:
    answer = Touched(problem="illegal read at 0x1", is_beyond_memory=True)
    case = Case(tmp_path, scale_objects[0], Tracer(answer))

    with pytest.raises(CaptureError, match="memory that was not found"):
        case.write((SMALL, 4), has_absent=False)
