"""Compares memory chunk by chunk, and says where the first wrong element is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asmevo.replay.comparison import Difference, RegionFacts, RegionOutcome
from asmevo.replay.elements import ElementType, format_value
from asmevo.replay.numeric import FLOATS, Bytes, read_floats, ulp_distances
from asmevo.replay.rules import ElementRule, ExactRule, Mask

__all__ = ["RegionComparer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _First:
    byte_offset: int
    expected: bytes
    actual: bytes


class RegionComparer:
    """Compares one region, fed in ascending chunks whose offsets are multiples of eight bytes."""

    def __init__(self, facts: RegionFacts, rule: ElementRule | None = None) -> None:
        """Start with nothing compared; `facts` go into the report. The rule is byte-exact."""
        self._facts = facts
        self._rule: ElementRule = rule or ExactRule()
        self._size = facts.element_type.size_bytes
        self._first: _First | None = None
        self._bytes = self._differing = 0
        self._wrong_bytes = self._wrong_elements = 0
        self._max_ulp = 0

    def feed(self, offset: int, expected: Bytes, actual: Bytes) -> None:
        """Compare the bytes from `offset` on; both arrays have the same length."""
        if offset % 8 or expected.shape != actual.shape:
            raise ValueError("chunks must start at multiples of 8 and have the same size")
        self._bytes += expected.size
        if expected.size % 8 == 0 and np.array_equal(expected.view("<u8"), actual.view("<u8")):
            return
        differing_bytes = expected != actual
        if not differing_bytes.any():
            return
        starts = np.arange(0, differing_bytes.size, self._size)
        counts = np.add.reduceat(differing_bytes, starts, dtype=np.intp)
        differs: Mask = counts > 0
        self._differing += int(np.count_nonzero(differs))
        wrong = self._find_wrong(offset, expected, actual, differs)
        if not wrong.any():
            return
        self._wrong_elements += int(np.count_nonzero(wrong))
        self._wrong_bytes += int(counts[wrong].sum())
        if self._first is None:
            at = int(np.argmax(wrong)) * self._size
            self._first = _First(
                byte_offset=offset + at,
                expected=expected[at : at + self._size].tobytes(),
                actual=actual[at : at + self._size].tobytes(),
            )

    def _find_wrong(self, offset: int, expected: Bytes, actual: Bytes, differs: Mask) -> Mask:
        """By the rule; a region may end within an element, whose bytes are compared as they are."""
        whole = expected.size // self._size
        wrong = differs.copy()
        one, other = expected[: whole * self._size], actual[: whole * self._size]
        wrong[:whole] = self._rule.find_violations(offset, one, other, differs[:whole])
        if self._facts.element_type in FLOATS:
            self._note_ulp(one, other, differs[:whole])
        return wrong

    def _note_ulp(self, expected: Bytes, actual: Bytes, differs: Mask) -> None:
        kind = self._facts.element_type
        rows = (data.reshape(-1, self._size)[differs].reshape(-1) for data in (expected, actual))
        one, other = rows
        is_number = ~(np.isnan(read_floats(one, kind)) | np.isnan(read_floats(other, kind)))
        distances = ulp_distances(one, other, kind)[is_number]
        self._max_ulp = max(self._max_ulp, int(distances.max(initial=np.uint64(0))))

    def outcome(self) -> RegionOutcome:
        """What was compared so far."""
        facts = self._facts
        return RegionOutcome(
            region=facts.index,
            argument=facts.argument,
            element_type=facts.element_type.value,
            type_source=facts.type_source,
            rule=self._rule.name,
            bytes_compared=self._bytes,
            elements=-(-self._bytes // self._size),
            differing_elements=self._differing,
            max_ulp=self._max_ulp if facts.element_type in FLOATS else None,
        )

    def finish(self) -> Difference | None:
        """What was found, None when everything was right."""
        first, facts = self._first, self._facts
        if first is None:
            return None
        # A region may end within an element: its bytes then have no reading.
        is_whole = len(first.expected) == self._size
        element_type = facts.element_type if is_whole else ElementType.B8
        return Difference(
            region=facts.index,
            argument=facts.argument,
            address=facts.address + first.byte_offset,
            byte_offset=first.byte_offset,
            element_index=first.byte_offset // self._size,
            element_type=facts.element_type.value,
            expected=format_value(first.expected, element_type),
            actual=format_value(first.actual, element_type),
            differing_bytes=self._wrong_bytes,
            differing_elements=self._wrong_elements,
        )
