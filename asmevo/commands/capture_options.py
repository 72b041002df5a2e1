"""Options of the capture commands, and what they come to together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.errors import UsageError

if TYPE_CHECKING:
    from asmevo.capture.outcome import CaptureOptions

__all__ = [
    "Children",
    "Count",
    "Every",
    "For",
    "Globs",
    "Golden",
    "Graph",
    "MaxBytes",
    "Nth",
    "Output",
    "Policy",
    "Redact",
    "Selection",
    "Shapes",
    "Timeout",
    "Top",
    "Watch",
    "Window",
    "output_folder",
]

Output = Annotated[Path, typer.Option("-o", "--output", help="Folder for the bundles")]
Globs = Annotated[
    list[str] | None,
    typer.Option("--kernel", metavar="GLOB", help="Kernel names to capture; repeatable"),
]
Count = Annotated[
    int | None,
    typer.Option(
        min=1, help="Dispatches of each kernel [default: 1; no limit with --shapes, --for]"
    ),
]
Timeout = Annotated[
    float, typer.Option(min=0.1, max=86400, help="Seconds to wait for what is wanted")
]
For = Annotated[
    str | None,
    typer.Option(
        "--for", metavar="TIME", help="Capture for this long (30s, 2m), whatever is there by then"
    ),
]
Top = Annotated[
    int,
    typer.Option(
        min=0, max=64, help="Only so many kernels: those that take the most time [0: all]"
    ),
]
Watch = Annotated[str, typer.Option(metavar="TIME", help="How long --top counts launches first")]
Shapes = Annotated[
    bool,
    typer.Option(
        "--shapes", help="One dispatch for each distinct geometry and set of scalar arguments"
    ),
]
Nth = Annotated[int, typer.Option(min=1, help="First launch of each function to capture")]
Every = Annotated[int, typer.Option(min=1, help="Then capture one launch in so many")]
MaxBytes = Annotated[
    str, typer.Option(metavar="SIZE", help="Largest dispatch to capture, in memory (64MiB, 2GiB)")
]
Golden = Annotated[
    bool,
    typer.Option(
        "--golden/--no-golden", help="Also keep what memory holds after the launch, to compare with"
    ),
]
Graph = Annotated[
    bool,
    typer.Option("--graph", help="Launch graphs node by node where one of their kernels is wanted"),
]
Policy = Annotated[
    str,
    typer.Option(metavar="POLICY", help="What to keep of memory: allocation, window or touched"),
]
Window = Annotated[
    str, typer.Option(metavar="SIZE", help="Bytes on both sides of a pointer, with --policy window")
]
Redact = Annotated[
    bool,
    typer.Option(
        "--redact", help="Put synthetic values of the same type and range in place of contents"
    ),
]
Children = Annotated[
    bool,
    typer.Option("--children", help="Also processes below it; a folder each process and device"),
]

_SHAPES_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The options that say which dispatches are wanted, as they were given."""

    output: Path
    kernel: list[str] | None
    count: int | None
    timeout: float
    duration: str | None
    top: int
    watch: str
    shapes: bool
    nth: int
    every: int
    max_bytes: str
    golden: bool
    graph: bool
    policy: str
    window: str

    def to_options(self, *, by_process: bool) -> CaptureOptions:
        """Check them together.

        Raises:
            UsageError: One is malformed.
        """
        from asmevo.capture.control_block import encode_globs
        from asmevo.capture.manifest import Policy as RegionPolicy
        from asmevo.capture.outcome import CaptureOptions
        from asmevo.quantities import parse_duration, parse_size

        globs = tuple(self.kernel or ["*"])
        encode_globs(globs)  # refuses bad ones before a process is touched
        if self.policy not in tuple(RegionPolicy):
            raise UsageError(f"--policy {self.policy[:40]!r} is none of {', '.join(RegionPolicy)}")
        timeout_s = self.timeout
        if self.duration is not None:
            timeout_s = parse_duration(self.duration)
        elif self.shapes:
            timeout_s = min(timeout_s, _SHAPES_TIMEOUT_S)
        # With a time of its own or shapes, the number of dispatches is open unless it was given.
        is_open = self.shapes or self.duration is not None
        return CaptureOptions(
            globs=globs,
            count=self.count or (1 << 30 if is_open else 1),
            timeout_s=timeout_s,
            max_bytes=parse_size(self.max_bytes),
            output=self.output,
            stays=is_open and self.count is None,
            takes_shapes=self.shapes,
            first_call=self.nth - 1,
            every=self.every,
            takes_golden=self.golden,
            takes_graphs=self.graph,
            policy=RegionPolicy(self.policy),
            window_bytes=parse_size(self.window),
            top=self.top,
            watch_s=parse_duration(self.watch),
            by_process=by_process,
        )


@contextlib.contextmanager
def output_folder(path: Path) -> Iterator[None]:
    """A folder for bundles; taken away again where it was made for nothing.

    Raises:
        UsageError: It cannot be made.
    """
    missing = []
    for folder in (path, *path.parents):
        if folder.exists():
            break
        missing.append(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be made: {error.strerror}") from error
    try:
        yield
    finally:
        for folder in missing:
            with contextlib.suppress(OSError):  # not empty
                folder.rmdir()
