"""What was compared with what: records of one comparison of memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from asmevo.replay.elements import ElementType

__all__ = [
    "Comparison",
    "Difference",
    "EnvelopeFacts",
    "GuardDifference",
    "RegionFacts",
    "RegionOutcome",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionFacts:
    """What a report says about a region besides its bytes."""

    index: int
    address: int
    argument: str = ""
    element_type: ElementType = ElementType.B32
    type_source: str = ""
    """Where the type is known from; empty for bits of unknown meaning."""
    has_float_atomics: bool = False
    """True when K0's instructions add floats atomically to the region, or may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first element of a region that differs, and how much of the region does."""

    region: int
    argument: str
    """Kernel arguments that point into the region, such as `out_ptr (offset 0)`."""
    address: int
    byte_offset: int
    """Of the element, from the start of the region."""
    element_index: int
    element_type: str
    expected: str
    actual: str
    differing_bytes: int
    differing_elements: int

    def describe(self) -> str:
        """The difference in one sentence."""
        where = f"region {self.region}" + (f", argument {self.argument}" if self.argument else "")
        return (
            f"{where}: element {self.element_index} ({self.element_type}) at 0x{self.address:x}, "
            f"byte offset {self.byte_offset}: expected {self.expected}, got {self.actual}; "
            f"{self.differing_elements} elements ({self.differing_bytes} bytes) differ"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardDifference:
    """A write outside every captured region, found in the guard pattern around them."""

    address: int
    nearest_region: int
    distance: int
    """Bytes past the region's end, negative before its start."""
    differing_bytes: int

    def describe(self) -> str:
        """The difference in one sentence."""
        side = "past the end" if self.distance >= 0 else "before the start"
        return (
            f"write outside the captured memory: 0x{self.address:x}, {abs(self.distance)} bytes "
            f"{side} of region {self.nearest_region}; {self.differing_bytes} guard bytes changed"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeFacts:
    """How far K0's own launches differ in one region."""

    region: int
    argument: str
    element_type: str
    elements: int
    varying_elements: int
    max_spread: float | None
    """The largest difference of an element between two launches; None unless they are floats."""
    max_magnitude: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionOutcome:
    """What was compared of one region, and by which rule."""

    region: int
    argument: str
    element_type: str
    type_source: str
    rule: str
    bytes_compared: int
    elements: int
    differing_elements: int
    """Within the rule or not."""
    max_ulp: int | None
    """The largest distance in units of the last place; None unless they are floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was compared with what, and the first difference of each region that breaks its rule."""

    against: str
    """`golden output` or `K0`."""
    launch: str = ""
    """How the launch differed from the usual one; empty when it did not."""
    outcomes: tuple[RegionOutcome, ...]
    guard_bytes: int
    differences: tuple[Difference, ...] = ()
    guard_difference: GuardDifference | None = None

    @property
    def regions(self) -> int:
        """How many were compared."""
        return len(self.outcomes)

    @property
    def bytes_compared(self) -> int:
        """Over all regions."""
        return sum(outcome.bytes_compared for outcome in self.outcomes)

    @property
    def elements_compared(self) -> int:
        """Over all regions."""
        return sum(outcome.elements for outcome in self.outcomes)

    @property
    def max_ulp(self) -> int | None:
        """Over all regions of floats."""
        return max((one.max_ulp for one in self.outcomes if one.max_ulp is not None), default=None)

    @property
    def has_passed(self) -> bool:
        """True when no element breaks its region's rule, guards included."""
        return not self.differences and self.guard_difference is None

    @property
    def is_identical(self) -> bool:
        """True when no byte differs, guards included."""
        return self.has_passed and not any(one.differing_elements for one in self.outcomes)

    @property
    def first_difference(self) -> Difference | None:
        """That of the lowest region."""
        return self.differences[0] if self.differences else None

    def describe(self) -> tuple[str, ...]:
        """A sentence for each difference, first the lowest region's."""
        lines = tuple(difference.describe() for difference in self.differences)
        return lines + ((self.guard_difference.describe(),) if self.guard_difference else ())

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with the sums."""
        return asdict(self) | {
            "regions": self.regions,
            "bytes_compared": self.bytes_compared,
            "elements_compared": self.elements_compared,
            "max_ulp": self.max_ulp,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        for name in ("regions", "bytes_compared", "elements_compared", "max_ulp"):
            data.pop(name, None)
        guard = data.pop("guard_difference")
        outcomes = tuple(RegionOutcome(**item) for item in data.pop("outcomes"))
        differences = tuple(Difference(**item) for item in data.pop("differences"))
        return cls(
            **data,
            outcomes=outcomes,
            differences=differences,
            guard_difference=None if guard is None else GuardDifference(**guard),
        )
