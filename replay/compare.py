"""Byte-exact comparison of memory, chunk by chunk, that says where the first difference is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asmevo.replay.elements import ElementType, format_value
from asmevo.replay.records import Difference, RegionFacts

__all__ = ["Bytes", "RegionComparer"]

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class _First:
    byte_offset: int
    expected: bytes
    actual: bytes


class RegionComparer:
    """Compares one region, fed in ascending chunks whose offsets are multiples of eight bytes."""

    def __init__(self, facts: RegionFacts) -> None:
        """Start with nothing compared; `facts` go into the report."""
        self._facts = facts
        self._first: _First | None = None
        self._differing_bytes = 0
        self._differing_elements = 0

    def feed(self, offset: int, expected: Bytes, actual: Bytes) -> None:
        """Compare the bytes from `offset` on; both arrays have the same length."""
        if offset % 8 or expected.shape != actual.shape:
            raise ValueError("chunks must start at multiples of 8 and have the same size")
        differs = expected != actual
        count = int(np.count_nonzero(differs))
        if not count:
            return
        size = self._facts.element_type.size_bytes
        self._differing_bytes += count
        starts = np.arange(0, differs.size, size)
        self._differing_elements += int(
            np.count_nonzero(np.add.reduceat(differs, starts, dtype=np.intp))
        )
        if self._first is None:
            at = int(np.argmax(differs)) // size * size
            self._first = _First(
                byte_offset=offset + at,
                expected=expected[at : at + size].tobytes(),
                actual=actual[at : at + size].tobytes(),
            )

    def finish(self) -> Difference | None:
        """What was found, None when everything was equal."""
        first, facts = self._first, self._facts
        if first is None:
            return None
        size = facts.element_type.size_bytes
        # A region may end within an element: its bytes then have no reading.
        is_whole = len(first.expected) == size
        element_type = facts.element_type if is_whole else ElementType.B8
        return Difference(
            region=facts.index,
            argument=facts.argument,
            address=facts.address + first.byte_offset,
            byte_offset=first.byte_offset,
            element_index=first.byte_offset // size,
            element_type=facts.element_type.value,
            expected=format_value(first.expected, element_type),
            actual=format_value(first.actual, element_type),
            differing_bytes=self._differing_bytes,
            differing_elements=self._differing_elements,
        )
