"""Which pages a dispatch touches, and bundles of just those.

Who finds out is a later stage, which executes the dispatch (`asmevo.replay.touch`): a capture is
given a tracer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from asmevo.capture.bundle import Bundle, Moment, RegionContent, open_bundle, write_bundle
from asmevo.capture.chunk_store import ChunkStore
from asmevo.capture.manifest import (
    AddressRange,
    Manifest,
    MemoryPointer,
    PointerReference,
    Policy,
    Region,
    RegionKind,
)

__all__ = [
    "BundleRedactor",
    "Helpers",
    "PageTracer",
    "Touched",
    "find_missing",
    "keep_touched",
    "merge_ranges",
]

PAGE_BYTES = 4096
_CHUNK_BYTES = 1 << 20
# Pages between two touched ones are kept too where they are few: fewer regions.
_GAP_BYTES = 4 * PAGE_BYTES
_MAX_PIECES = 3000  # of one bundle

# Kinds of which only the touched pages are kept; others are small, or the device is not asked.
_TRIMMED = (RegionKind.DEVICE, RegionKind.MANAGED, RegionKind.PINNED_HOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What an execution of a bundle touched."""

    pages: tuple[AddressRange, ...] = ()  # whole pages, ascending, none twice
    problem: str = ""  # why it could not be executed to its end; else empty
    is_beyond_memory: bool = False  # because it touches memory that is nowhere in the bundle
    # Memory afterwards is as recorded; None: not recorded. Says nothing where something is missing.
    is_golden: bool | None = None


class PageTracer(Protocol):
    """Executes bundles and notes the pages that they touch."""

    def trace(self, bundle: Path, absent: Sequence[AddressRange]) -> Touched:
        """Execute a bundle; `absent` is memory of the program that is not in it."""


class BundleRedactor(Protocol):
    """Replaces the contents of bundles by synthetic ones."""

    def redact(self, source: Path, target: Path, store: ChunkStore | None) -> None:
        """Write `target`; what cannot be redacted is a CaptureError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Helpers:
    """What later stages do for a capture."""

    tracer: PageTracer | None = None  # for the policy `touched`
    redactor: BundleRedactor | None = None


def merge_ranges(ranges: Iterable[tuple[int, int]], gap_bytes: int = 0) -> list[tuple[int, int]]:
    """Starts and ends, ascending, with those joined that are at most a gap apart."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1] + gap_bytes:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def find_missing(manifest: Manifest, touched: Touched) -> tuple[tuple[int, int], ...]:
    """Touched ranges that are in no region of the bundle."""
    present = merge_ranges((r.address, r.address + r.size_bytes) for r in manifest.regions)
    missing = []
    for page in touched.pages:
        at, end = page.address, page.address + page.size_bytes
        for low, high in present:
            if high <= at or low >= end:
                continue
            if low > at:
                missing.append((at, low))
            at = max(at, high)
            if at >= end:
                break
        if at < end:
            missing.append((at, end))
    return tuple(
        (start, end)
        for start, end in missing
        # The rest of a page at a region's end is not the dispatch's.
        if end - start >= PAGE_BYTES or not _is_beside(start, end, present)
    )


def _is_beside(start: int, end: int, present: Sequence[tuple[int, int]]) -> bool:
    return any(high == start or low == end for low, high in present)


def keep_touched(
    source: Path, target: Path, touched: Touched, *, store: ChunkStore | None
) -> Manifest:
    """Write the bundle with its touched pages only.

    Raises:
        BundleError: The bundle is damaged.
    """
    with open_bundle(source) as bundle:
        manifest = bundle.manifest
        return write_bundle(
            target,
            dispatch=manifest.dispatch,
            capture=replace(manifest.capture, policy=Policy.TOUCHED),
            code_object=bundle.code_object(),
            kernarg=bundle.kernarg(),
            regions=_cut_regions(bundle, touched),
            store=store,
        )


def _cut_regions(bundle: Bundle, touched: Touched) -> list[RegionContent]:
    regions = bundle.manifest.regions
    pages = [(page.address, page.address + page.size_bytes) for page in touched.pages]
    gap = _GAP_BYTES
    while True:
        pieces = [
            (region, start, end)
            for region in regions
            for start, end in _pieces_of(region, merge_ranges(pages, gap))
        ]
        if len(pieces) <= _MAX_PIECES:
            break
        gap *= 4
    spans = [(start, end) for _, start, end in pieces]
    return [
        _cut(bundle, region, start, end, _memory_pointers(region, regions, spans, start, end))
        for region, start, end in pieces
    ]


def _pieces_of(region: Region, pages: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    begin, finish = region.address, region.address + region.size_bytes
    if region.kind not in _TRIMMED:
        yield begin, finish
        return
    for low, high in pages:
        if low < finish and high > begin:
            yield max(low, begin), min(high, finish)


def _memory_pointers(
    region: Region,
    regions: Sequence[Region],
    spans: Sequence[tuple[int, int]],
    start: int,
    end: int,
) -> tuple[MemoryPointer, ...]:
    """Pointers to the piece whose own place was kept too."""
    found = []
    for pointer in region.memory_pointers:
        at = regions[pointer.region].address + pointer.offset
        value = region.address + pointer.region_offset
        holder = next((i for i, (low, high) in enumerate(spans) if low <= at <= high - 8), None)
        if holder is not None and start <= value < end:
            found.append(
                MemoryPointer(
                    region=holder, offset=at - spans[holder][0], region_offset=value - start
                )
            )
    return tuple(found)


def _cut(
    bundle: Bundle, region: Region, start: int, end: int, memory: tuple[MemoryPointer, ...]
) -> RegionContent:
    offset = start - region.address

    def content(moment: Moment) -> Callable[[], Iterator[bytes]]:
        return lambda: _slice(bundle.region_chunks(region, moment), offset, end - start)

    return RegionContent(
        address=start,
        size_bytes=end - start,
        kind=region.kind,
        pointers=tuple(
            PointerReference(
                kernarg_offset=pointer.kernarg_offset,
                region_offset=pointer.region_offset - offset,
            )
            for pointer in region.pointers
            if 0 <= pointer.region_offset - offset < end - start
        ),
        before=content(Moment.BEFORE),
        after=None if region.after is None else content(Moment.AFTER),
        coherence=region.coherence,
        symbol=region.symbol,
        allocation=region.allocation,
        memory_pointers=memory,
    )


def _slice(pieces: Iterable[bytes], offset: int, size: int) -> Iterator[bytes]:
    """Bytes `offset` to `offset + size` of a stream, in pieces of one size."""
    at, pending, left = 0, bytearray(), size
    for piece in pieces:
        low, high = max(offset - at, 0), min(offset + size - at, len(piece))
        at += len(piece)
        if low >= high:
            continue
        pending += piece[low:high]
        while len(pending) >= _CHUNK_BYTES:
            yield bytes(pending[:_CHUNK_BYTES])
            del pending[:_CHUNK_BYTES]
        left -= high - low
    if pending:
        yield bytes(pending)
