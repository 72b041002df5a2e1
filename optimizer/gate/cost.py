"""What a launch costs, and when one object counts as faster than another."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from asmevo.errors import GateError
from asmevo.replay.records import Measurement

__all__ = ["EPSILON", "Cost", "CostUnit", "compare_costs", "read_cost"]

EPSILON = 0.002
"""Least relative gain that counts."""
_VARIATION_WEIGHT = 0.85
"""A gain must exceed this much of the coefficient of variation of the timing samples."""


class CostUnit(StrEnum):
    """Modelled figures come from the emulated device, measured ones from a GPU; they never mix."""

    MODELLED_CYCLES = "modelled cycles"
    MEASURED_MS = "measured ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One bundle's launch: median, and coefficient of variation of its samples."""

    value: float
    unit: CostUnit
    variation: float = 0.0


def read_cost(measurement: Measurement | None) -> Cost:
    """The cost of a replayed launch.

    Raises:
        GateError: the device reported neither modelled cycles nor a time.
    """
    if measurement is not None and measurement.measured_ms:
        samples = measurement.measured_ms
        mean = statistics.fmean(samples)
        spread = statistics.stdev(samples) / mean if len(samples) > 1 and mean > 0 else 0.0
        return Cost(value=statistics.median(samples), unit=CostUnit.MEASURED_MS, variation=spread)
    if measurement is not None and measurement.modelled_cycles:
        return Cost(value=float(measurement.modelled_cycles), unit=CostUnit.MODELLED_CYCLES)
    raise GateError("the device reported no cost for a launch", hint="asmevo doctor")


def compare_costs(best: Sequence[Cost], candidate: Sequence[Cost]) -> tuple[float, float]:
    """Speedup over the best (geometric mean over the bundles), and the speedup that would count."""
    ratios = [old.value / new.value for old, new in zip(best, candidate, strict=True)]
    speedup = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    variation = max(cost.variation for cost in (*best, *candidate))
    return speedup, 1 + max(EPSILON, _VARIATION_WEIGHT * variation)
