"""Triton's autotuners take the first configuration that runs, unless the user asked for times.

What they would measure here is the host's time, which says nothing about a GPU, costs many launches
for each configuration, and would make the choice differ from one run to the next.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["are_timed", "take_first"]

_UNUSED = [float("inf")] * 3  # as Triton marks a configuration that does not compile


def are_timed() -> bool:
    """Whether `asmevo emulate --autotune` started this process, or its parent."""
    return os.environ.get("ASMEVO_AUTOTUNE") == "1"


def _launch_once(launch: Callable[[], object], quantiles: object = None) -> list[float]:
    launch()
    return [0.0] * 3


class _FirstChoice:
    """Stands before two methods of Autotuner: configurations are launched up to one that runs."""

    def __init__(self, tuner_class: Any) -> None:
        self._run = tuner_class.run
        self._bench = tuner_class._bench
        self._is_announced = False

    def run(self, tuner: Any, *arguments: Any, **options: Any) -> Any:
        tuner.__dict__["_asmevo_is_settled"] = False
        return self._run(tuner, *arguments, **options)

    def bench(self, tuner: Any, *arguments: Any, **options: Any) -> list[float]:
        if tuner.__dict__.get("_asmevo_is_settled"):
            return _UNUSED
        self._announce()
        tuner.__dict__["do_bench"] = _launch_once
        timings: list[float] = self._bench(tuner, *arguments, **options)
        tuner.__dict__["_asmevo_is_settled"] = timings != _UNUSED
        return timings

    def _announce(self) -> None:
        if not self._is_announced:
            self._is_announced = True
            text = "autotuners take their first configuration that runs (--autotune times them)"
            print(f"asmevo: {text}", file=sys.stderr, flush=True)


def take_first(autotuner: ModuleType) -> None:
    """Make the tuners of `triton.runtime.autotuner` settle for the first configuration."""
    tuner_class: Any = vars(autotuner)["Autotuner"]
    choice = _FirstChoice(tuner_class)

    def run(self: Any, *arguments: Any, **options: Any) -> Any:
        return choice.run(self, *arguments, **options)

    def bench(self: Any, *arguments: Any, **options: Any) -> list[float]:
        return choice.bench(self, *arguments, **options)

    tuner_class.run, tuner_class._bench = run, bench
