"""The policy `touched`: which pages of a captured dispatch are kept, and which are still missing.

Allocations that are small are copied whole at the launch. Of large ones nothing is, at first: an
execution of the dispatch on the copies names the pages that it touches there. They are wanted at
the next launch, until a dispatch touches nothing that is missing. The launching thread waits for
none of this.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from asmevo.capture.bundle import open_bundle
from asmevo.capture.bundle_writer import BundleWriter
from asmevo.capture.control_block import MAX_ABSENT, MAX_WANTED_RANGES, ControlBlock, Record
from asmevo.capture.loaded_objects import LoadedKernel
from asmevo.capture.manifest import AddressRange, Policy
from asmevo.capture.touched import PageTracer, Touched, find_missing, merge_ranges
from asmevo.errors import CaptureError

__all__ = ["PageSearch"]

_MAX_ATTEMPTS = 12
_GAP_BYTES = 16 << 10  # of large allocations: one copy of a bit more is cheaper than two
_MAX_RANGES = MAX_WANTED_RANGES // 4  # of one kernel


@dataclass(slots=True)
class _Wanted:
    """Of one kernel: the ranges of large allocations that its launches have touched."""

    ranges: list[tuple[int, int]] = field(default_factory=list)
    attempts: int = 0


class PageSearch:
    """What is known of the pages of each kernel, during one capture."""

    def __init__(self, tracer: PageTracer, writer: BundleWriter, control: ControlBlock) -> None:
        """Nothing is known yet."""
        self._tracer = tracer
        self._writer = writer
        self._control = control
        self._wanted: dict[int, _Wanted] = {}

    def write(
        self, record: Record, data: mmap.mmap, loaded: LoadedKernel, ordinal: int, layout: int
    ) -> Path | None:
        """Write what the dispatch touches; None where it has to be captured again.

        Raises:
            CaptureError: It touches other memory each time, or cannot be executed.
        """
        count = min(record.absent_count, MAX_ABSENT)
        absent = [
            AddressRange(address=region.address, size_bytes=region.size)
            for region in record.absent[:count]
        ]
        with self._probe(record, data, loaded, ordinal) as probe:
            touched = self._tracer.trace(probe, absent)
            if not touched.problem and (missing := self._find_missing(probe, touched)):
                self._want(layout, missing)
                return None
            if not touched.problem and touched.is_golden is not False:
                self._wanted.pop(layout, None)
                return self._writer.write_touched(probe, touched, loaded.kernel.name)
        if touched.is_beyond_memory:
            raise CaptureError(
                f"it reaches memory that was not found, or runs beyond its own: {touched.problem}"
            )
        if absent:
            reason = touched.problem or "memory is not as after the program's launch"
            raise CaptureError(f"its pages cannot be found by executing it: {reason}")
        # All of its memory is there: what cannot be cut is kept whole.
        return self._writer.write(record, data, loaded, ordinal, policy=Policy.ALLOCATION)

    @contextlib.contextmanager
    def _probe(
        self, record: Record, data: mmap.mmap, loaded: LoadedKernel, ordinal: int
    ) -> Iterator[Path]:
        probe = self._writer.write(record, data, loaded, ordinal, is_probe=True)
        try:
            yield probe
        finally:
            probe.unlink(missing_ok=True)

    def _find_missing(self, probe: Path, touched: Touched) -> tuple[tuple[int, int], ...]:
        with open_bundle(probe) as bundle:
            return find_missing(bundle.manifest, touched)

    def _want(self, layout: int, missing: tuple[tuple[int, int], ...]) -> None:
        wanted = self._wanted.setdefault(layout, _Wanted())
        wanted.attempts += 1
        gap = _GAP_BYTES
        while len(ranges := merge_ranges([*wanted.ranges, *missing], gap)) > _MAX_RANGES:
            gap *= 2
        wanted.ranges = ranges
        if wanted.attempts > _MAX_ATTEMPTS:
            size = sum(end - start for start, end in missing)
            raise CaptureError(
                f"it touches other pages of large allocations at each launch: {size} bytes were "
                f"missing at the last of {_MAX_ATTEMPTS}"
            )
        self._control.set_wanted_ranges(
            [
                (start, end - start, index)
                for index, one in self._wanted.items()
                for start, end in one.ranges
            ]
        )
