"""What K0 does not repeat: float atomics in another order, races. Learned from its own launches.

A float element that varied may lie where K0's values lay, widened by the largest spread in its
region: a candidate's order is one more order, which none of K0's launches need have had. Where K0's
own instructions add floats atomically, this holds for every element of the region. Anything else
that varied must have one of the contents that K0 gave it. What is wider than a rounding error can
make it is refused: nothing can be judged by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from asmevo.replay.comparison import EnvelopeFacts, RegionFacts
from asmevo.replay.elements import ElementType
from asmevo.replay.numeric import FLOATS, Bytes, Floats, read_floats
from asmevo.replay.rules import ElementRule, Mask

__all__ = ["Envelope"]

_MAX_RELATIVE_WIDTH = {
    ElementType.F64: 1e-9,
    ElementType.F32: 1e-3,
    ElementType.F16: 2.0**-6,
    ElementType.BF16: 2.0**-4,
}
"""Of the largest magnitude in the region. Reordered sums of some thousand terms stay below it."""
_MAX_VARYING_SHARE = 1 / 16
"""Of a region's elements, where they are no floats."""


@dataclass(slots=True)
class _Chunk:
    reference: Bytes
    contents: list[Bytes] = field(default_factory=list)


class _RegionEnvelope:
    """All contents that K0 gave to the chunks of one region that varied."""

    def __init__(self, facts: RegionFacts) -> None:
        self.facts = facts
        self._size = facts.element_type.size_bytes
        self.is_float = facts.element_type in FLOATS
        self._chunks: dict[int, _Chunk] = {}
        self._peak = 0.0
        self._margin: float | None = None

    def learn(self, offset: int, reference: Bytes, content: Bytes) -> None:
        """Contents are kept: they are gone with the next launch."""
        self._margin = None
        self._note_peak(reference)
        chunk = self._chunks.setdefault(offset, _Chunk(reference=reference.copy()))
        chunk.contents.append(content.copy())

    def _note_peak(self, content: Bytes) -> None:
        """The largest finite magnitude decides what a wide spread is."""
        if self.is_float:
            whole = content.size // self._size * self._size
            values = read_floats(content[:whole], self.facts.element_type)
            finite = np.abs(values[np.isfinite(values)])
            self._peak = max(self._peak, float(finite.max(initial=0.0)))

    @property
    def varies(self) -> bool:
        return bool(self._chunks)

    def _values(self, offset: int) -> Floats:
        """A row for each content of a chunk."""
        chunk = self._chunks[offset]
        whole = chunk.reference.size // self._size * self._size
        contents = (chunk.reference, *chunk.contents)
        rows = [read_floats(content[:whole], self.facts.element_type) for content in contents]
        return np.stack(rows)

    @property
    def margin(self) -> float:
        """The largest spread; infinite where not only rounding differs."""
        if self._margin is None:
            spreads = [self._find_spread(self._values(offset)) for offset in self._chunks]
            self._margin = max(spreads, default=0.0)
        return self._margin

    @staticmethod
    def _find_spread(values: Floats) -> float:
        low, high = values.min(axis=0), values.max(axis=0)
        is_same = (low == high) | np.isnan(values).all(axis=0)
        with np.errstate(invalid="ignore"):
            width = np.where(is_same, 0.0, high - low)
        return float(np.nan_to_num(width, nan=np.inf).max(initial=0.0))

    def describe(self, region_bytes: int) -> EnvelopeFacts:
        count = sum(int(self._varying(offset).sum()) for offset in self._chunks)
        return EnvelopeFacts(
            region=self.facts.index,
            argument=self.facts.argument,
            element_type=self.facts.element_type.value,
            elements=-(-region_bytes // self._size),
            varying_elements=count,
            max_spread=self.margin if self.is_float else None,
            max_magnitude=self._peak if self.is_float else None,
        )

    def _varying(self, offset: int) -> Mask:
        chunk = self._chunks[offset]
        differs = np.zeros(chunk.reference.size, dtype=np.bool_)
        for content in chunk.contents:
            differs |= content != chunk.reference
        return _by_element(differs, self._size)

    def find_excess(self, facts: EnvelopeFacts) -> str | None:
        """Why it is too wide, None when it is not."""
        where = f"region {facts.region}" + (
            f", argument {facts.argument}" if facts.argument else ""
        )
        if self.is_float:
            limit = _MAX_RELATIVE_WIDTH[self.facts.element_type] * self._peak
            if self.margin <= limit:
                return None
            return (
                f"{where}: K0's own launches differ by up to {self.margin:g} where values reach "
                f"{self._peak:g}: too wide to judge by"
            )
        if facts.varying_elements <= max(1.0, _MAX_VARYING_SHARE * facts.elements):
            return None
        return (
            f"{where}: {facts.varying_elements} of {facts.elements} elements "
            f"({facts.element_type}) differ between K0's own launches: too many to judge by"
        )

    def find_violations(self, offset: int, expected: Bytes, actual: Bytes, differs: Mask) -> Mask:
        if not self.is_float:
            allowed = np.zeros_like(differs)
            if offset in self._chunks:
                chunk = self._chunks[offset]
                for content in (chunk.reference, *chunk.contents):
                    unlike = content[: actual.size] != actual
                    allowed |= ~_by_element(unlike, self._size)
            return differs & ~allowed
        values = read_floats(actual, self.facts.element_type)
        low = high = read_floats(expected, self.facts.element_type)
        may_vary = np.full(differs.size, self.facts.has_float_atomics)
        if offset in self._chunks:
            known = self._values(offset)[:, : differs.size]
            low, high = known.min(axis=0), known.max(axis=0)
            may_vary |= self._varying(offset)[: differs.size]
        margin = self.margin
        with np.errstate(invalid="ignore"):
            is_inside = (values >= low - margin) & (values <= high + margin)
        violations: Mask = differs & ~(may_vary & is_inside)
        return violations


def _by_element(differs: Mask, size: int) -> Mask:
    starts = np.arange(0, differs.size, size)
    result: Mask = np.add.reduceat(differs, starts, dtype=np.intp) > 0
    return result


class _EnvelopeRule:
    name = "within K0's own variation"

    def __init__(self, region: _RegionEnvelope) -> None:
        self._region = region

    def find_violations(self, offset: int, expected: Bytes, actual: Bytes, differs: Mask) -> Mask:
        return self._region.find_violations(offset, expected, actual, differs)


class Envelope:
    """K0's own variation, region by region; empty until something varied."""

    def __init__(self, facts: dict[int, RegionFacts], sizes: dict[int, int]) -> None:
        """`facts` and sizes in bytes by region index."""
        self._regions = {index: _RegionEnvelope(item) for index, item in facts.items()}
        self._sizes = sizes

    def learn(self, region: int, offset: int, reference: Bytes, content: Bytes) -> bool:
        """A launch of K0 left `content` where its first left `reference`; true if they differ."""
        known = self._regions[region]
        if np.array_equal(reference, content):
            return False
        known.learn(offset, reference, content)
        return True

    @property
    def facts(self) -> tuple[EnvelopeFacts, ...]:
        """Of the regions that varied."""
        return tuple(
            known.describe(self._sizes[index])
            for index, known in self._regions.items()
            if known.varies
        )

    def find_excess(self) -> str | None:
        """Why nothing can be judged by it, None when it can."""
        excesses = (self._regions[facts.region].find_excess(facts) for facts in self.facts)
        return next((excess for excess in excesses if excess is not None), None)

    def rule(self, region: int) -> ElementRule | None:
        """How to judge a region, None where K0 repeated every byte."""
        known = self._regions.get(region)
        return _EnvelopeRule(known) if known is not None and known.varies else None
