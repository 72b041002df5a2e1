"""What a capture is asked for and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from asmevo.capture.manifest import Policy
from asmevo.errors import CaptureError

__all__ = [
    "CaptureOptions",
    "CaptureResult",
    "Captured",
    "GraphUse",
    "explain_graphs",
    "find_failure",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """What to capture, and for how long."""

    globs: tuple[str, ...]
    count: int  # dispatches of each kernel of each code object
    timeout_s: float
    max_bytes: int  # of one dispatch's regions
    output: Path
    stays: bool = False  # for the whole time, also when all there is was captured
    takes_shapes: bool = False  # one dispatch for each distinct shape; `count` bounds them
    first_call: int = 0  # launches of each function that pass before the first capture
    every: int = 1
    takes_golden: bool = True
    takes_graphs: bool = False
    policy: Policy = Policy.ALLOCATION
    window_bytes: int = 1 << 20  # on both sides, with the policy `window`
    whole_bytes: int = (
        64 << 20
    )  # with `touched`: of larger allocations only touched pages are copied
    scan_bytes: int = 64 << 10  # behind each pointer, searched for further pointers
    top: int = 0  # not 0: only so many kernels, the heaviest of those that match
    watch_s: float = 2.0  # to find those
    by_process: bool = False  # a folder in `output` for each process and device


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphUse:
    """Launches of graphs during a capture."""

    launches: int = 0
    unknown: int = 0  # of graphs that were instantiated before, whose kernels nobody can tell
    kernels: tuple[tuple[str, int], ...] = ()  # wanted ones that ran in graphs, and how often


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One bundle written."""

    path: Path
    kernel: str
    size_bytes: int  # of the regions
    pause_ms: float
    pid: int = 0
    device: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureResult:
    """What came of a capture."""

    captured: tuple[Captured, ...]
    refused: tuple[tuple[str, str], ...]  # kernel and reason, the last of each kernel
    unmatched: tuple[str, ...]  # globs that no kernel matched
    incomplete: tuple[tuple[str, int], ...]  # kernel and the dispatches taken, too few
    seen: tuple[str, ...]  # names of kernels launched meanwhile
    graphs: GraphUse = field(default_factory=GraphUse)


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


def explain_graphs(graphs: GraphUse, *, takes_graphs: bool) -> tuple[str, ...]:
    """What was skipped because it ran in graphs, and how to get it, a sentence each."""
    notes = []
    if graphs.kernels and not takes_graphs:
        names = ", ".join(name[:60] for name, _ in graphs.kernels[:3])
        notes.append(
            f"{len(graphs.kernels)} wanted kernels also ran in graphs ({names}): --graph captures "
            "them there; without graphs (vLLM: --enforce-eager) they are launched on their own"
        )
    if graphs.unknown:
        notes.append(
            f"{graphs.unknown} of {graphs.launches} launches of graphs were of ones made before "
            "asmevo attached, whose kernels the runtime does not tell: start with asmevo capture "
            "run, or without graphs (vLLM: --enforce-eager)"
        )
    return tuple(notes)
