"""What a replay found: records that travel from the worker to the engine and out as JSON."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any, Self

from asmevo.replay.comparison import Comparison, EnvelopeFacts
from asmevo.replay.findings import Finding
from asmevo.verdict import Status, Verdict

__all__ = [
    "Measurement",
    "ObjectResult",
    "ReplayResult",
    "VariantOutcome",
]

# Bump when a field of a record changes its name or meaning, or goes away.
_SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What the launches of one object cost. Modelled on the emulated device, measured on a GPU."""

    modelled_cycles: int | None = None
    wave_instructions: int | None = None
    measured_ms: tuple[float, ...] = ()
    """Event times of the launches, in order; empty on the emulated device."""
    k0_ms: tuple[float, ...] = ()
    """Of a candidate: those of K0's launches between its own."""
    caches: str = ""
    """`warm` or `cold`; empty where the launches were not there to be timed."""

    @property
    def variation(self) -> float | None:
        """Coefficient of variation of the times; None for fewer than two."""
        times = self.measured_ms
        mean = statistics.fmean(times) if len(times) > 1 else 0.0
        return statistics.stdev(times) / mean if mean > 0 else None

    @property
    def speedup(self) -> float | None:
        """Median time of K0 over the candidate's, of launches by turns."""
        if not self.k0_ms or not self.measured_ms:
            return None
        median = statistics.median(self.measured_ms)
        return statistics.median(self.k0_ms) / median if median > 0 else None

    def to_json(self) -> dict[str, Any]:
        """As JSON values, with what follows from the times."""
        return asdict(self) | {"variation": self.variation, "speedup": self.speedup}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        fields = {key: value for key, value in data.items() if key not in ("variation", "speedup")}
        for name in ("measured_ms", "k0_ms"):
            fields[name] = tuple(fields[name])
        return cls(**fields)


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
    envelope: tuple[EnvelopeFacts, ...] = ()
    """Of K0: what it does not repeat itself."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {
            "comparisons": [comparison.to_json() for comparison in self.comparisons],
            "measurement": None if self.measurement is None else self.measurement.to_json(),
            "findings": [finding.to_json() for finding in self.findings],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_json`; TypeError or KeyError for anything else."""
        verdict = data.pop("verdict")
        comparisons = tuple(Comparison.from_json(item) for item in data.pop("comparisons"))
        measured = data.pop("measurement")
        findings = tuple(Finding.from_json(item) for item in data.pop("findings"))
        envelope = tuple(EnvelopeFacts(**item) for item in data.pop("envelope"))
        return cls(
            **data,
            verdict=Verdict(status=Status(verdict["status"]), reasons=tuple(verdict["reasons"])),
            comparisons=comparisons,
            measurement=None if measured is None else Measurement.from_json(measured),
            findings=findings,
            envelope=envelope,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantOutcome:
    """A variation of the bundle's inputs, and whether candidates were held to it."""

    changes: str
    is_used: bool
    reason: str = ""
    """Why not: K0 itself does not work there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """One replay of a bundle: K0, then each candidate in the order given."""

    bundle: str
    kernel: str
    device: str
    notes: tuple[str, ...] = ()
    """What was not as in the captured program."""
    k0: ObjectResult
    candidates: tuple[ObjectResult, ...]
    variants: tuple[VariantOutcome, ...] = ()

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
