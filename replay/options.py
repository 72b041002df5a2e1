"""How strictly the oracle judges. The usual options leave nothing out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from asmevo.replay.rules import Tolerance

__all__ = ["CacheState", "OracleOptions"]


class CacheState(StrEnum):
    """Before a timed launch."""

    WARM = "warm"
    """They hold what restoring memory left there."""
    COLD = "cold"
    """They hold nothing of the dispatch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleOptions:
    """What of the oracle is on.

    Attributes:
        checks: Run-time checks of the emulated device; `all`, `none`, or names from
            `findings.CHECKS`.
        reverse_waves: Emulated device: one more launch with the waves' turns reversed.
        seeds: Emulated device: further launches, each with one permutation of the waves' turns,
            and of memory latencies where no checks are made.
        second_state: Launches alternate between two contents of what a launch must not depend on:
            guards, and on the emulated device registers, LDS and scratch that nobody wrote.
        guards: Bytes around the regions must stay as they are.
        timing_rounds: On a GPU: timed launches of K0 and of each candidate that passed, by turns.
        warm_up: Rounds before those.
        caches: What L2 and Infinity Cache hold at each of these launches.
        tolerance: For candidates whose edits change arithmetic; None judges them byte by byte.
    """

    checks: str = "all"
    reverse_waves: bool = True
    seeds: tuple[int, ...] = (1, 2)
    second_state: bool = True
    guards: bool = True
    timing_rounds: int = 20
    warm_up: int = 3
    caches: CacheState = CacheState.WARM
    tolerance: Tolerance | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        fields = dict(data)
        tolerance = fields.pop("tolerance")
        fields["seeds"] = tuple(fields["seeds"])
        fields["caches"] = CacheState(fields["caches"])
        return cls(
            **fields,
            tolerance=None if tolerance is None else Tolerance.from_json(tolerance),
        )
