"""A program under the emulated device's run-time checks: its reports, read back and merged."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from asmevo.errors import ReplayError
from asmevo.replay.findings import Finding

__all__ = ["KernelReport", "read_reports", "strict_environment"]

_LIMIT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReport:
    """What the checks found in the dispatches of one kernel.

    Attributes:
        failures: Reports of launches that ended with a fault, each once.
    """

    kernel: str
    findings: tuple[Finding, ...]
    failures: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """True when nothing was found."""
        return not self.findings and not self.failures

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "kernel": self.kernel,
            "failures": list(self.failures),
            "findings": [finding.to_json() for finding in self.findings],
        }


def strict_environment(checks: str, reports: Path) -> dict[str, str]:
    """Variables with which every process on the device appends its reports to a file."""
    return {"ASMEVO_EMULATOR_CHECKS": checks, "ASMEVO_EMULATOR_FINDINGS": str(reports)}


@dataclass(slots=True)
class _Merged:
    findings: dict[tuple[str, int, int | None], Finding] = field(default_factory=dict)
    failures: dict[str, None] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Keep the first occurrence and the sum of the counts."""
        place = (finding.rule, finding.offset, finding.other_offset)
        known = self.findings.get(place)
        count = finding.count + (known.count if known else 0)
        self.findings[place] = replace(known or finding, count=count)


def read_reports(path: Path) -> tuple[KernelReport, ...]:
    """The reports in a file that the device wrote, one for each kernel, in order of first launch.

    An unfinished last line, of a process that was killed, is left out.

    Raises:
        ReplayError: The file is too large or not of the device's making.
    """
    if not path.exists():
        return ()
    if path.stat().st_size > _LIMIT_BYTES:
        raise ReplayError(f"{path}: over {_LIMIT_BYTES:,} bytes of findings")
    kernels: dict[str, _Merged] = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.endswith("\n"):
                _add_line(kernels, line, f"{path}:{number}")
    return tuple(
        KernelReport(
            kernel=kernel,
            findings=tuple(merged.findings.values()),
            failures=tuple(merged.failures),
        )
        for kernel, merged in kernels.items()
    )


def _add_line(kernels: dict[str, _Merged], line: str, where: str) -> None:
    try:
        report = json.loads(line)
        merged = kernels.setdefault(str(report["kernel"]), _Merged())
        for item in report["findings"]:
            merged.add(Finding.from_json(item))
        if not report["ok"]:
            merged.failures[str(report["report"])] = None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReplayError(f"{where}: not a report of the emulated device") from error
