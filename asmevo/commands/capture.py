"""The capture command: snapshot kernel dispatches of live processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asmevo.commands.options import AsJson, print_json, printable

if TYPE_CHECKING:
    from asmevo.capture.outcome import Captured, CaptureResult

__all__ = ["register"]

app = typer.Typer(no_args_is_help=True, help="Capture kernel dispatches of live processes")


def register(parent: typer.Typer) -> None:
    """Add the command to the command line."""
    parent.add_typer(app, name="capture")


@app.callback()
def capture() -> None:
    """Capture kernel dispatches of live processes."""


@app.command("attach", no_args_is_help=True)
def attach(
    pid: Annotated[int, typer.Argument(metavar="PID", min=1, help="Process that launches kernels")],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the bundles")],
    kernel: Annotated[
        list[str] | None,
        typer.Option("--kernel", metavar="GLOB", help="Kernel names to capture; repeatable"),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Dispatches of each kernel")] = 1,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=86400, help="Seconds to wait for launches")
    ] = 30.0,
    max_mib: Annotated[
        int,
        typer.Option(min=1, max=1 << 20, help="Largest dispatch, in MiB of memory"),
    ] = 2048,
    as_json: AsJson = False,
) -> None:
    """Capture dispatches of a running process, then let go of it

    The process goes on working. A bundle holds all memory that a launch can
    reach, before and after it: treat it as a memory dump.

    asmevo capture attach 1234 --kernel 'softmax*' -o captures

    asmevo capture attach 1234 --kernel '*' --count 3 --timeout 60 -o captures
    """
    from asmevo.capture.attach import attach as attach_to
    from asmevo.capture.collector import collect
    from asmevo.capture.control_block import encode_globs
    from asmevo.capture.outcome import CaptureOptions, find_failure
    from asmevo.errors import UsageError

    globs = tuple(kernel or ["*"])
    encode_globs(globs)  # refuses bad ones before the process is touched
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{output} cannot be made: {error.strerror}") from error
    options = CaptureOptions(
        globs=globs, count=count, timeout_s=timeout, max_bytes=max_mib << 20, output=output
    )
    with _Progress() as progress, attach_to(pid) as target:
        progress.attached(pid)
        result = collect(target, options, progress)
    _print_result(result, as_json=as_json)
    if failure := find_failure(result):
        raise failure


class _Progress:
    """One line on a terminal's stderr that follows the capture; nothing elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._status = self._console.status("Attaching")
        self._taken = 0

    def __enter__(self) -> _Progress:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def attached(self, pid: int) -> None:
        self._status.update(f"Attached to {pid}, waiting for launches")

    def captured(self, captured: Captured) -> None:
        from rich.markup import escape

        self._taken += 1
        self._status.update(
            f"{self._taken} captured, last {escape(printable(captured.kernel[:60]))}"
        )

    def refused(self, kernel: str, reason: str) -> None:
        from rich.text import Text

        self._console.print(Text(printable(f"not captured: {kernel[:80]}: {reason}")))


def _print_result(result: CaptureResult, *, as_json: bool) -> None:
    if as_json:
        print_json(_to_json(result))
        return
    for kernel, taken in result.incomplete:
        name = printable(kernel[:80])
        typer.echo(f"asmevo: warning: only {taken} dispatches of {name} in time", err=True)
    for captured in result.captured:
        typer.echo(
            f"Wrote {captured.path} ({captured.size_bytes / (1 << 20):.2f} MiB of memory, launch "
            f"held {captured.pause_ms:.2f} ms)"
        )


def _to_json(result: CaptureResult) -> dict[str, Any]:
    return {
        "bundles": [
            {
                "path": str(captured.path),
                "kernel": captured.kernel,
                "size_bytes": captured.size_bytes,
                "pause_ms": captured.pause_ms,
            }
            for captured in result.captured
        ],
        "refused": [{"kernel": kernel, "reason": reason} for kernel, reason in result.refused],
        "incomplete": [{"kernel": kernel, "taken": taken} for kernel, taken in result.incomplete],
        "seen": list(result.seen),
    }
