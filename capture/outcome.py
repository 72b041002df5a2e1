"""What a capture is asked for and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asmevo.errors import CaptureError

__all__ = ["CaptureOptions", "CaptureResult", "Captured", "find_failure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """What to capture, and for how long."""

    globs: tuple[str, ...]
    count: int  # dispatches of each kernel of each code object
    timeout_s: float
    max_bytes: int  # of one dispatch's regions
    output: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One bundle written."""

    path: Path
    kernel: str
    size_bytes: int  # of the regions
    pause_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureResult:
    """What came of a capture."""

    captured: tuple[Captured, ...]
    refused: tuple[tuple[str, str], ...]  # kernel and reason, the last of each kernel
    unmatched: tuple[str, ...]  # globs that no kernel matched
    incomplete: tuple[tuple[str, int], ...]  # kernel and the dispatches taken, too few
    seen: tuple[str, ...]  # names of kernels launched meanwhile


def find_failure(result: CaptureResult) -> CaptureError | None:
    """Why a capture has not given what was asked for; None when every glob gave a bundle."""
    if result.unmatched:
        wanted = ", ".join(result.unmatched)
        if not result.seen:
            return CaptureError(
                f"no kernel matched {wanted}: the process launched none at all meanwhile",
                hint="let it work, or give it more time with --timeout",
            )
        few = ", ".join(name[:60] for name in result.seen[:5])
        more = f" and {len(result.seen) - 5} more" if len(result.seen) > 5 else ""
        return CaptureError(f"no kernel matched {wanted}", hint=f"kernels seen: {few}{more}")
    if result.captured:
        return None
    kernel, reason = result.refused[0] if result.refused else ("", "its launches stopped")
    return CaptureError(f"no dispatch could be captured: {kernel}: {reason}")
