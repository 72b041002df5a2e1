"""The outcome of judging a candidate: a value, shared by replay and optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Status", "Verdict"]


class Status(StrEnum):
    """How a check or a candidate ended. The gate runs in the order of the first four stages."""

    PASSED = "passed"
    EDIT_INVALID = "edit_invalid"
    ASSEMBLER_REJECTED = "assembler_rejected"
    STATIC_REJECTED = "static_rejected"
    RUNTIME_FAILURE = "runtime_failure"
    CHECK_FAILED = "check_failed"
    DIVERGENT = "divergent"
    TIMED_OUT = "timed_out"
    NOT_FASTER = "not_faster"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Status and the reasons for it, most important first; no reasons when passed."""

    status: Status
    reasons: tuple[str, ...] = ()

    @property
    def has_passed(self) -> bool:
        """True when the check found nothing against the candidate."""
        return self.status is Status.PASSED
