"""What the capture commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from asmevo.commands.options import print_json, printable

if TYPE_CHECKING:
    from asmevo.capture.listing import KernelUse, Usage
    from asmevo.capture.outcome import Captured, CaptureOptions, CaptureResult

__all__ = ["Progress", "print_result", "print_usage"]

_NAME_CHARACTERS = 60


class Progress:
    """One line on a terminal's stderr that follows the capture; nothing elsewhere."""

    def __init__(self) -> None:
        """Nothing is shown before the block is entered."""
        from rich.console import Console

        self._console = Console(stderr=True)
        self._status = self._console.status("Attaching")
        self._taken = 0

    def __enter__(self) -> Progress:
        """Show it."""
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away."""
        self._status.stop()

    def attached(self, pid: int) -> None:
        """The hooks are about to go in."""
        self._status.update(f"Attached to {pid}, waiting for launches")

    def captured(self, captured: Captured) -> None:
        """A bundle was written."""
        from rich.markup import escape

        self._taken += 1
        self._status.update(
            f"{self._taken} captured, last {escape(printable(captured.kernel[:60]))}"
        )

    def refused(self, kernel: str, reason: str) -> None:
        """A dispatch could not be captured."""
        from rich.text import Text

        self._console.print(Text(printable(f"not captured: {kernel[:80]}: {reason}")))


def print_result(
    result: CaptureResult, options: CaptureOptions, *, as_json: bool, to_stderr: bool = False
) -> None:
    """Print what a capture gave; `to_stderr` where stdout is a program's."""
    from asmevo.capture.outcome import explain_graphs

    notes = explain_graphs(result.graphs, takes_graphs=options.takes_graphs)
    if as_json:
        print_json({**_result_to_json(result), "notes": list(notes)})
        return
    for kernel, taken in result.incomplete if not options.stays else ():
        name = printable(kernel[:80])
        typer.echo(f"asmevo: warning: only {taken} dispatches of {name} in time", err=True)
    for note in notes:
        typer.echo(printable(f"asmevo: warning: {note}"), err=True)
    for captured in result.captured:
        typer.echo(
            f"Wrote {captured.path} ({captured.size_bytes / (1 << 20):.2f} MiB of memory, launch "
            f"held {captured.pause_ms:.2f} ms)",
            err=to_stderr,
        )


def _result_to_json(result: CaptureResult) -> dict[str, Any]:
    return {
        "bundles": [
            {
                "path": str(captured.path),
                "kernel": captured.kernel,
                "size_bytes": captured.size_bytes,
                "pause_ms": captured.pause_ms,
                "pid": captured.pid,
                "device": captured.device,
            }
            for captured in result.captured
        ],
        "refused": [{"kernel": kernel, "reason": reason} for kernel, reason in result.refused],
        "incomplete": [{"kernel": kernel, "taken": taken} for kernel, taken in result.incomplete],
        "seen": list(result.seen),
        "graph_launches": result.graphs.launches,
        "unknown_graph_launches": result.graphs.unknown,
        "kernels_in_graphs": [
            {"kernel": kernel, "launches": launches} for kernel, launches in result.graphs.kernels
        ],
    }


def print_usage(usages: dict[int, Usage], *, as_json: bool) -> None:
    """Print which kernels processes launch."""
    if as_json:
        print_json({"processes": [{"pid": pid, **u.to_json()} for pid, u in usages.items()]})
        return
    for pid, usage in usages.items():
        total = sum(kernel.launches + kernel.graph_launches for kernel in usage.kernels)
        typer.echo(f"process {pid}: {total} launches in {usage.seconds:.1f} s")
        rows = [("time", "launches", "graph", "mean", "shapes", "kernel")]
        rows += [_row(kernel) for kernel in usage.kernels]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (f"{c:>{w}}" for c, w in zip(row[:-1], widths[:-1], strict=True))
            typer.echo("  " + "  ".join([*cells, row[-1]]))
        if usage.unknown_graph_launches:
            typer.echo(
                f"asmevo: warning: {usage.unknown_graph_launches} launches were of graphs made "
                "before asmevo attached, whose kernels are not in the list (asmevo capture run)",
                err=True,
            )


def _row(kernel: KernelUse) -> tuple[str, str, str, str, str, str]:
    shapes = [
        f"{'×'.join(map(str, shape.grid))}:{'×'.join(map(str, shape.block))}"
        for shape in kernel.shapes[:3]
    ]
    more = len(kernel.shapes) > 3 or kernel.has_more_shapes
    return (
        "–" if kernel.share_of_time is None else f"{kernel.share_of_time:.1%}",
        str(kernel.launches),
        str(kernel.graph_launches) if kernel.graph_launches else "–",
        "–" if kernel.mean_us is None else f"{kernel.mean_us:.1f} µs",
        " ".join(shapes) + (" …" if more else ""),
        printable(kernel.name[:_NAME_CHARACTERS]),
    )
