"""What a replay found: records that travel from the worker to the engine and out as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

from asmevo.replay.elements import ElementType
from asmevo.replay.findings import Finding
from asmevo.verdict import Status, Verdict

__all__ = [
    "Comparison",
    "Difference",
    "GuardDifference",
    "Measurement",
    "ObjectResult",
    "RegionFacts",
    "ReplayResult",
]

# Bump when a field of a record changes its name or meaning, or goes away.
_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionFacts:
    """What a report says about a region besides its bytes."""

    index: int
    address: int
    argument: str = ""
    element_type: ElementType = ElementType.B32


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
class Comparison:
    """What was compared with what, and the first difference of each region that has one."""

    against: str
    """`golden output` or `K0`."""
    regions: int
    bytes_compared: int
    guard_bytes: int
    differences: tuple[Difference, ...] = ()
    guard_difference: GuardDifference | None = None

    @property
    def is_identical(self) -> bool:
        """True when no byte differs, guards included."""
        return not self.differences and self.guard_difference is None

    @property
    def first_difference(self) -> Difference | None:
        """That of the lowest region."""
        return self.differences[0] if self.differences else None

    def describe(self) -> tuple[str, ...]:
        """A sentence for each difference, first the lowest region's."""
        lines = tuple(difference.describe() for difference in self.differences)
        return lines + ((self.guard_difference.describe(),) if self.guard_difference else ())

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`."""
        guard = data.pop("guard_difference")
        differences = tuple(Difference(**item) for item in data.pop("differences"))
        return cls(
            **data,
            differences=differences,
            guard_difference=None if guard is None else GuardDifference(**guard),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What the launches of one object cost. Modelled on the emulated device, measured on a GPU."""

    modelled_cycles: int | None = None
    wave_instructions: int | None = None
    measured_ms: tuple[float, ...] = ()
    """Event times of the launches, in order; empty on the emulated device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectResult:
    """How one code object, K0 or a candidate, did."""

    name: str
    sha256: str
    verdict: Verdict
    comparisons: tuple[Comparison, ...] = ()
    measurement: Measurement | None = None
    findings: tuple[Finding, ...] = ()
    """Of the emulated device's checks, each rule and pair of instructions once."""
    order_dependence: str = ""
    """Of K0: the other order of waves in which it gives another result; candidates then may too."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"findings": [finding.to_json() for finding in self.findings]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`; TypeError or KeyError for anything else."""
        verdict = data.pop("verdict")
        comparisons = tuple(Comparison.from_json(item) for item in data.pop("comparisons"))
        measured = data.pop("measurement")
        findings = tuple(Finding.from_json(item) for item in data.pop("findings"))
        if measured is not None:
            measured["measured_ms"] = tuple(measured["measured_ms"])
        return cls(
            **data,
            verdict=Verdict(status=Status(verdict["status"]), reasons=tuple(verdict["reasons"])),
            comparisons=comparisons,
            measurement=None if measured is None else Measurement(**measured),
            findings=findings,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """One replay of a bundle: K0, then each candidate in the order given."""

    bundle: str
    kernel: str
    device: str
    k0: ObjectResult
    candidates: tuple[ObjectResult, ...]

    @property
    def verdict(self) -> Verdict:
        """The first verdict that is not a pass, K0's before those of the candidates."""
        verdicts = [item.verdict for item in (self.k0, *self.candidates)]
        failed = (verdict for verdict in verdicts if not verdict.has_passed)
        return next(failed, Verdict(status=Status.PASSED))

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "schema_version": _SCHEMA_VERSION,
            "verdict": asdict(self.verdict),
            **asdict(self),
            "k0": self.k0.to_json(),
            "candidates": [item.to_json() for item in self.candidates],
        }
