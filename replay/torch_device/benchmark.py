"""Leaves the benchmarks of a script out, where the user asked for it."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

__all__ = ["are_skipped", "skip_reports"]


def are_skipped() -> bool:
    """Whether `asmevo emulate --skip-benchmarks` started this process, or its parent."""
    return os.environ.get("ASMEVO_SKIP_BENCHMARKS") == "1"


def _skip(mark: Any, *arguments: Any, **options: Any) -> None:
    single = not isinstance(mark.benchmarks, (list, tuple))
    for benchmark in [mark.benchmarks] if single else mark.benchmarks:
        print(f"asmevo: benchmark {benchmark.plot_name} was skipped", file=sys.stderr, flush=True)


def skip_reports(testing: ModuleType) -> None:
    """Make each report of `triton.testing.perf_report` say that it is skipped, and run nothing."""
    vars(testing)["Mark"].run = _skip
