"""When an element that differs from the expected one may still count as right.

Everything is byte-exact unless one of two things is known: the user gave bounds for a candidate
whose edits change arithmetic, or K0 itself does not repeat an element (`envelope`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from asmevo.errors import UsageError
from asmevo.replay.elements import ElementType
from asmevo.replay.numeric import FLOATS, Bytes, read_floats, ulp_distances

__all__ = ["BoundedRule", "EitherRule", "ElementRule", "ExactRule", "Mask", "Tolerance"]

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Bounds for the floats of candidates whose edits change arithmetic.

    An element is right when it is within any of the bounds. A NaN must meet a NaN (of any payload),
    an infinity the same infinity; zeros of different sign differ unless `equal_zeros`.
    """

    max_ulp: int = 0
    relative: float = 0.0
    """Of the expected value's magnitude; added to `absolute`."""
    absolute: float = 0.0
    equal_zeros: bool = False

    def __post_init__(self) -> None:
        """Refuse bounds that accept everything or nothing sensible.

        Raises:
            UsageError: A bound is negative, no number, or wider than 1 relative.
        """
        for name, bound in (("relative", self.relative), ("absolute", self.absolute)):
            if not math.isfinite(bound) or bound < 0:
                raise UsageError(f"the {name} bound must be a number that is not negative")
        if self.max_ulp < 0 or self.relative >= 1:
            raise UsageError("bounds must be at least 0, the relative one below 1")

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`."""
        return cls(**data)


class ElementRule(Protocol):
    """Judges the elements of one region."""

    @property
    def name(self) -> str:
        """What a report calls it."""
        ...

    def find_violations(self, offset: int, expected: Bytes, actual: Bytes, differs: Mask) -> Mask:
        """Which of the elements that differ are wrong.

        Args:
            offset: of the chunk in its region.
            expected: whole elements.
            actual: as many.
            differs: for each element, whether any byte differs.
        """
        ...


class ExactRule:
    """Every byte counts."""

    name = "byte-exact"

    def find_violations(self, offset: int, expected: Bytes, actual: Bytes, differs: Mask) -> Mask:
        """Whatever differs is wrong."""
        return differs


class BoundedRule:
    """Floats within a tolerance."""

    def __init__(self, tolerance: Tolerance, element_type: ElementType) -> None:
        """Of elements of a float type."""
        if element_type not in FLOATS:
            raise ValueError(f"{element_type} is not a float type")
        self._tolerance, self._type = tolerance, element_type

    @property
    def name(self) -> str:
        """With the bounds."""
        bounds = self._tolerance
        parts = [f"{bounds.max_ulp} ulp"] if bounds.max_ulp else []
        parts += [f"{bounds.relative:g} relative"] if bounds.relative else []
        parts += [f"{bounds.absolute:g} absolute"] if bounds.absolute else []
        return "within " + " or ".join(parts or ["0 ulp"])

    def find_violations(self, offset: int, expected: Bytes, actual: Bytes, differs: Mask) -> Mask:
        """NaN, infinities and zeros first, then the bounds."""
        one, other = read_floats(expected, self._type), read_floats(actual, self._type)
        bounds = self._tolerance
        with np.errstate(invalid="ignore", over="ignore"):
            limit = bounds.absolute + bounds.relative * np.abs(one)
            is_near = np.abs(other - one) <= limit
        is_near |= ulp_distances(expected, actual, self._type) <= np.uint64(bounds.max_ulp)
        is_finite = np.isfinite(one) & np.isfinite(other)
        is_right = is_finite & is_near
        is_right |= np.isnan(one) & np.isnan(other)
        if not bounds.equal_zeros:
            is_right &= ~((one == 0) & (other == 0))
        violations: Mask = differs & ~is_right
        return violations


class EitherRule:
    """Right by one of two rules."""

    def __init__(self, first: ElementRule, second: ElementRule) -> None:
        """Both judge every element."""
        self._first, self._second = first, second

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self._first.name}, or {self._second.name}"

    def find_violations(self, offset: int, expected: Bytes, actual: Bytes, differs: Mask) -> Mask:
        """What is wrong by both."""
        wrong = self._first.find_violations(offset, expected, actual, differs)
        return wrong & self._second.find_violations(offset, expected, actual, differs)
