"""Replaces what a bundle's memory holds by synthetic values of the same type and range.

Floats are drawn anew within the range of each region. Integers may be indices, lengths or tables,
and a kernel that gets others may run into memory that is not there: they are drawn anew, or else
shuffled, only where the dispatch, executed with them, still touches nothing that is missing; others
stay. Pointers stay. What memory holds after the launch is left out: K0's own result, on these
values, is the reference of a replay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from asmevo.capture.bundle import Bundle, Moment, RegionContent, open_bundle, write_bundle
from asmevo.capture.chunk_store import ChunkStore
from asmevo.capture.manifest import Manifest, Region
from asmevo.capture.touched import PageTracer, find_missing
from asmevo.errors import CaptureError

__all__ = ["Redactor", "find_type"]

_log = logging.getLogger(__name__)

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_MAX_INTEGER_REGIONS = 24  # each costs an execution or two
_SMALL_INTEGER = 1 << 24
_MOST = 0.98
_CHUNK_BYTES = 1 << 20


def find_type(content: Bytes) -> str:
    """`int32`, `int64`, `float32`, `half` (of whichever kind) or `byte`, by how the bits look."""
    words = content[: content.size // 4 * 4].view(np.int32)
    used = words[words != 0]
    if not used.size:
        return "int32"
    if _share(np.abs(used.astype(np.int64)) < _SMALL_INTEGER) >= _MOST:
        return "int64" if _has_wide_integers(words) else "int32"
    halves = content[: content.size // 2 * 2].view(np.uint16)
    if not np.any(halves[::2]):  # floats of few digits
        return "float32"
    halves = halves[halves != 0]
    of_bfloat16 = (halves >> 7 & 0xFF).astype(np.int32) - 127
    of_float16 = (halves >> 10 & 0x1F).astype(np.int32) - 15
    if max(_share(np.abs(of_bfloat16) <= 40), _share(np.abs(of_float16) <= 10)) >= _MOST:
        return "half"
    exponents = (used.view(np.uint32) >> 23 & 0xFF).astype(np.int32) - 127
    return "float32" if _share(np.abs(exponents) <= 40) >= _MOST else "byte"


def _share(flags: np.ndarray[Any, Any]) -> float:
    return float(np.count_nonzero(flags) / flags.size) if flags.size else 0.0


def _has_wide_integers(words: np.ndarray[Any, np.dtype[np.int32]]) -> bool:
    """Every other word is the sign of the one before it."""
    pairs = words[: words.size // 2 * 2].reshape(-1, 2)
    return bool(len(pairs) > 1 and np.all(pairs[:, 1] == pairs[:, 0] >> 31))


def _as_type(content: Bytes, kind: str) -> np.ndarray[Any, Any]:
    types = {"int32": np.int32, "int64": np.int64, "float32": np.float32, "half": np.uint16}
    dtype = np.dtype(types.get(kind, np.uint8))
    return content[: content.size // dtype.itemsize * dtype.itemsize].view(dtype)


def _draw(content: Bytes, kind: str, rng: np.random.Generator) -> Bytes:
    """Other values of the same type within the same range; zeros stay."""
    drawn = content.copy()
    values = _as_type(drawn, kind)
    used = np.flatnonzero(values)
    if not used.size:
        return drawn
    if kind == "float32":
        finite = values[used][np.isfinite(values[used])]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        if low == high:  # one value: drawn from there to zero, or it would be itself again
            low, high = min(low, 0.0), max(high, 0.0)
        values[used] = rng.uniform(low, high, used.size).astype(np.float32)
    elif kind in {"int32", "int64"}:
        found = values[used]
        values[used] = rng.integers(found.min(), found.max(), used.size, endpoint=True)
    else:  # the bits of values that are there: whatever they mean, these mean it too
        values[used] = rng.choice(values[used], used.size)
    return drawn


def _shuffle(content: Bytes, kind: str, rng: np.random.Generator) -> Bytes:
    shuffled = content.copy()
    rng.shuffle(_as_type(shuffled, kind))
    return shuffled


_Change = Callable[[Bytes, str, np.random.Generator], Bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """A region as it was."""

    region: Region
    content: Bytes
    kind: str
    pointers: tuple[int, ...]  # offsets of pointers in it

    def change(self, how: _Change, rng: np.random.Generator) -> Bytes:
        changed = how(self.content, self.kind, rng)
        for offset in self.pointers:
            changed[offset : offset + 8] = self.content[offset : offset + 8]
        return changed


class Redactor:
    """Writes redacted copies of bundles; the tracer executes them."""

    def __init__(self, tracer: PageTracer) -> None:
        """Nothing is read yet."""
        self._tracer = tracer
        self._rng = np.random.default_rng()

    def redact(self, source: Path, target: Path, store: ChunkStore | None) -> None:
        """Write `target`, with nothing of the contents of `source` that can be replaced.

        Raises:
            CaptureError: With other floats the dispatch runs into memory that is not there, or
                cannot be executed at all.
            BundleError: The source is damaged.
        """
        with open_bundle(source) as bundle:
            memories = [_read(bundle, region) for region in bundle.manifest.regions]
            contents = {
                one.region.index: one.content
                if one.kind.startswith("int")
                else one.change(_draw, self._rng)
                for one in memories
            }
            if problem := self._try(bundle, target, contents):
                raise CaptureError(f"it cannot be redacted: {problem}")
            kept = self._redact_integers(bundle, target, memories, contents)
            if kept:
                _log.warning(
                    "%s: integers of %d regions stay: the kernel takes them for addresses or sizes",
                    target,
                    kept,
                )
            _write(bundle, target, contents, store)

    def _redact_integers(
        self, bundle: Bundle, target: Path, memories: list[_Memory], contents: dict[int, Bytes]
    ) -> int:
        """Replace what can be; the number of regions that keep their integers."""
        integers = [one for one in memories if one.kind.startswith("int") and np.any(one.content)]
        kept = max(0, len(integers) - _MAX_INTEGER_REGIONS)
        for one in integers[:_MAX_INTEGER_REGIONS]:
            for how in (_draw, _shuffle):
                trial = {**contents, one.region.index: one.change(how, self._rng)}
                if not self._try(bundle, target, trial):
                    contents.update(trial)
                    break
            else:
                kept += 1
        return kept

    def _try(self, bundle: Bundle, target: Path, contents: Mapping[int, Bytes]) -> str:
        """Execute the bundle with these contents; why it fails, or nothing."""
        trial = target.with_name(f".{target.stem}.trial")
        try:
            manifest = _write(bundle, trial, contents, None)
            touched = self._tracer.trace(trial, [])
        finally:
            trial.unlink(missing_ok=True)
        if touched.problem:
            return touched.problem
        return "it touches other memory" if find_missing(manifest, touched) else ""


def _read(bundle: Bundle, region: Region) -> _Memory:
    content = np.frombuffer(bundle.region_bytes(region, Moment.BEFORE), dtype=np.uint8)
    pointers = tuple(
        pointer.offset
        for other in bundle.manifest.regions
        for pointer in other.memory_pointers
        if pointer.region == region.index
    )
    return _Memory(region=region, content=content, kind=find_type(content), pointers=pointers)


def _write(
    bundle: Bundle, path: Path, contents: Mapping[int, Bytes], store: ChunkStore | None
) -> Manifest:
    manifest = bundle.manifest
    facts = replace(manifest.capture, is_redacted=True, command=manifest.capture.command[:1])
    return write_bundle(
        path,
        dispatch=manifest.dispatch,
        capture=facts,
        code_object=bundle.code_object(),
        kernarg=bundle.kernarg(),
        regions=[
            RegionContent(
                address=region.address,
                size_bytes=region.size_bytes,
                kind=region.kind,
                pointers=region.pointers,
                before=_pieces(contents[region.index]),
                after=None,
                coherence=region.coherence,
                symbol=region.symbol,
                allocation=region.allocation,
                memory_pointers=region.memory_pointers,
            )
            for region in manifest.regions
        ],
        store=store,
    )


def _pieces(content: Bytes) -> Callable[[], list[memoryview]]:
    view = np.ascontiguousarray(content).data
    return lambda: [view[at : at + _CHUNK_BYTES] for at in range(0, len(view), _CHUNK_BYTES)]
