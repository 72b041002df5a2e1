"""The results as a Markdown page."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_case import ARCHES, Case
from kernel_library import get_library
from kernel_result import Outcome

__all__ = ["format_table"]

_HEAD = """# Real kernels on the emulated device

Written by `scripts/verify_kernels --table docs/kernels.md`. Each row is a Triton kernel out of an
unmodified wheel, called through the library's own Python wrapper on the emulated device and
compared with torch on the CPU (float64 or integer arithmetic of our own). The device's log must
name every kernel of the row, so that no fallback passes for it.

The error is the largest difference of any output, and in brackets its share of that output's
largest magnitude; *exact* means that every element of every output is equal. Tolerances and their
reasons stand in the cases, `tests/kernels/*_cases.py`.
"""


def _order(case: Case) -> tuple[str, str, str, str]:
    return (case.library, case.function.__module__, case.name, case.id)


def _count_kernels(pairs: Sequence[tuple[Case, Outcome]], arch: str) -> int:
    """Kernels of different names that passed on an architecture, in all cases that may pass."""
    passed: set[str] = set()
    failed: set[str] = set()
    for case, outcome in pairs:
        if outcome.arch == arch and not case.finding:
            (failed if outcome.reason else passed).update(case.kernels)
    return len(passed - failed)


def _describe(case: Case, outcome: Outcome | None) -> str:
    if outcome is None:
        return "not run"
    if outcome.reason:
        return "see below" if case.finding else "**failed**"
    if all(comparison["is_equal"] for comparison in outcome.comparisons):
        return "exact"

    def share(comparison: dict[str, float]) -> float:
        return comparison["max_error"] / max(comparison["largest"], 1e-300)

    worst = max(outcome.comparisons, key=share)
    return f"{worst['max_error']:.1e} ({share(worst):.1e})"


def _format_row(cases: Sequence[Case], outcomes: dict[tuple[str, str], Outcome]) -> str:
    """One wrapper with all its dtypes, a line of the cell for each."""
    first = cases[0]
    module, _, function = first.wrapper.partition(":")
    cells = [
        ", ".join(f"`{kernel}`" for kernel in first.kernels),
        f"`{module.removeprefix(f'{first.library}.')}` `{function}`",
        first.shapes,
        "<br>".join(str(case.dtype).removeprefix("torch.") for case in cases),
    ]
    for arch in ARCHES:
        results = [_describe(case, outcomes.get((case.id, arch))) for case in cases]
        cells.append("<br>".join(results) if arch in first.arches else "–")
    return f"| {' | '.join(cells)} |"


def _format_findings(cases: Sequence[Case]) -> list[str]:
    """What the kernels themselves do wrong."""
    findings: dict[str, list[str]] = {}
    for case in cases:
        if case.finding:
            findings.setdefault(case.finding, []).append(case.id)
    if not findings:
        return []
    lines = [f"* {', '.join(ids)}: {finding}" for finding, ids in findings.items()]
    return ["## Found in the kernels", "", *lines, ""]


def _format_library(
    library: str, cases: Sequence[Case], pairs: Sequence[tuple[Case, Outcome]]
) -> list[str]:
    outcomes = {(case.id, outcome.arch): outcome for case, outcome in pairs}
    counts = ", ".join(f"{_count_kernels(pairs, arch)} on {arch}" for arch in ARCHES)
    rows: dict[str, list[Case]] = {}
    for case in cases:
        rows.setdefault(case.name, []).append(case)
    return [
        f"## {library} {get_library(library).version}",
        "",
        f"Kernels of different names verified: {counts}.",
        "",
        f"| kernels | wrapper | inputs | dtype | {' | '.join(ARCHES)} |",
        "|---|---|---|---|" + "---|" * len(ARCHES),
        *(_format_row(row, outcomes) for row in rows.values()),
        "",
    ]


def format_table(pairs: Sequence[tuple[Case, Outcome]], *, source: str) -> str:
    """A page with one table for each library and the failures below; `source` names the run."""
    cases = sorted({case.id: case for case, _ in pairs}.values(), key=_order)
    lines = [_HEAD, f"Last run: {source}.", ""]
    for library in sorted({case.library for case in cases}):
        own = [case for case in cases if case.library == library]
        lines += _format_library(library, own, [p for p in pairs if p[0].library == library])
    lines += _format_findings(cases)
    failures = [(case, outcome) for case, outcome in pairs if outcome.reason and not case.finding]
    if failures:
        lines += ["## Failed", ""]
        lines += [f"* {case.id}, {outcome.arch}: {outcome.reason}" for case, outcome in failures]
        lines += [""]
    return "\n".join(lines)
