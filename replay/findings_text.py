"""Findings as text for people: grouped by rule, with the listing around both instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from asmevo.replay.findings import Finding, Severity

__all__ = ["describe_counts", "format_findings"]


def describe_counts(findings: Sequence[Finding]) -> str:
    """Such as `2 errors, 1 caution`."""
    if not findings:
        return "no findings"
    counts = Counter(finding.severity for finding in findings)
    parts = (
        f"{counts[severity]} {severity}{'' if counts[severity] == 1 else 's'}"
        for severity in Severity
        if counts[severity]
    )
    return ", ".join(parts)


def format_findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Lines of text: errors before cautions, each rule's findings together, by offset."""
    order = list(Severity)
    ranked = sorted(findings, key=lambda item: (order.index(item.severity), item.rule, item.offset))
    heading = ""
    for finding in ranked:
        if (title := f"{finding.severity}: {finding.rule}") != heading:
            heading = title
            yield heading
        yield from _format_one(finding)


def _format_one(finding: Finding) -> Iterator[str]:
    yield f"  {finding.message}"
    yield f"    {_describe_place(finding)}"
    previous: int | None = None
    marks = {finding.other_offset: "*", finding.offset: ">"}
    for index, (offset, text) in enumerate(finding.listing):
        if previous is not None and _has_gap(finding, index):
            yield "        …"
        yield f"      {marks.get(offset, ' ')} +0x{offset:<5x} {text}"
        previous = offset


def _has_gap(finding: Finding, index: int) -> bool:
    """Whether instructions are left out before the line: none is longer than 12 bytes."""
    return finding.listing[index][0] - finding.listing[index - 1][0] > 12


def _describe_place(finding: Finding) -> str:
    times = "once" if finding.count == 1 else f"{finding.count:,} times, first"
    x, y, z = finding.workgroup
    place = f"{times} in workgroup ({x}, {y}, {z}), wave {finding.wave}"
    if finding.lane is not None:
        place += f", lane {finding.lane}"
    if finding.other_wave is not None:
        place += f", with wave {finding.other_wave}"
    return place + (f"; {finding.where}" if finding.where else "")
