"""What the emulated device's run-time checks found in a dispatch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

__all__ = ["CHECKS", "Finding", "Severity", "count_sites", "find_new_errors", "validate_checks"]

CHECKS = ("waits", "hazards", "races", "undefined", "barriers", "alignment")
"""Names of the checks, as the emulated device's option `checks` takes them."""


class Severity(StrEnum):
    """Whether a finding breaks a rule of the hardware or one that only compilers keep."""

    ERROR = "error"
    CAUTION = "caution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One broken rule at one place of a kernel, with what is known of its first occurrence.

    Attributes:
        rule: Such as `missing-wait`.
        message: One sentence.
        where: Register, LDS bytes or address; may be empty.
        offset: Of the instruction that breaks the rule, in bytes from the kernel's entry.
        other_offset: Of the instruction that it conflicts with.
        workgroup: x, y, z.
        count: Occurrences in the dispatch.
        listing: Offset and text of the instructions around both, by offset.
    """

    rule: str
    severity: Severity
    message: str
    where: str
    offset: int
    instruction: str
    other_offset: int | None
    other_instruction: str | None
    workgroup: tuple[int, int, int]
    wave: int
    lane: int | None
    other_wave: int | None
    count: int
    listing: tuple[tuple[int, str], ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what the device writes and `to_json` gives; KeyError, TypeError or ValueError."""
        x, y, z = data["workgroup"]
        return cls(
            rule=str(data["rule"]),
            severity=Severity(data["class"]),
            message=str(data["message"]),
            where=str(data["where"]),
            offset=int(data["offset"]),
            instruction=str(data["instruction"]),
            other_offset=_number(data["other_offset"]),
            other_instruction=_text(data["other_instruction"]),
            workgroup=(int(x), int(y), int(z)),
            wave=int(data["wave"]),
            lane=_number(data["lane"]),
            other_wave=_number(data["other_wave"]),
            count=int(data["count"]),
            listing=tuple((int(offset), str(text)) for offset, text in data["listing"]),
        )

    def to_json(self) -> dict[str, Any]:
        """As JSON values, in the device's names."""
        return {
            "rule": self.rule,
            "class": self.severity.value,
            "message": self.message,
            "where": self.where,
            "offset": self.offset,
            "instruction": self.instruction,
            "other_offset": self.other_offset,
            "other_instruction": self.other_instruction,
            "workgroup": list(self.workgroup),
            "wave": self.wave,
            "lane": self.lane,
            "other_wave": self.other_wave,
            "count": self.count,
            "listing": [list(line) for line in self.listing],
        }

    def describe(self) -> str:
        """The finding in one sentence."""
        at = f"+0x{self.offset:x}"
        return f"{self.rule} at {at} ({self.instruction}): {self.message}"


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def validate_checks(text: str) -> str:
    """Give `text` back if the device takes it as its option `checks`.

    Raises:
        ValueError: It is neither `all` nor names of checks with commas between them.
    """
    unknown = [name for name in text.split(",") if text != "all" and name not in CHECKS]
    if unknown:
        raise ValueError(f"unknown check {unknown[0][:40]!r}; known: all, {', '.join(CHECKS)}")
    return text


def count_sites(findings: Iterable[Finding]) -> dict[str, int]:
    """How many pairs of instructions break each rule, errors only."""
    sites: dict[str, set[tuple[int, int | None]]] = {}
    for finding in findings:
        if finding.severity is Severity.ERROR:
            sites.setdefault(finding.rule, set()).add((finding.offset, finding.other_offset))
    return {rule: len(places) for rule, places in sites.items()}


def find_new_errors(candidate: Sequence[Finding], k0: Sequence[Finding]) -> tuple[Finding, ...]:
    """Errors of a candidate that K0 does not have.

    Offsets and registers change with every edit, so what K0 does wrong itself is known again by
    rule: a candidate may break it at as many places as K0 does. All of a rule's errors are given
    where it breaks it at more.
    """
    allowed = count_sites(k0)
    worse = {rule for rule, count in count_sites(candidate).items() if count > allowed.get(rule, 0)}
    return tuple(
        finding
        for finding in candidate
        if finding.severity is Severity.ERROR and finding.rule in worse
    )
