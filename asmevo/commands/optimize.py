"""The optimize command: search for a faster code object that does the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asmevo.commands.options import AsJson, DeviceName, LaunchTimeout, print_json, printable
from asmevo.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

__all__ = ["register"]

_DURATION = re.compile(r"(\d{1,6}(?:\.\d+)?)(s|m|h|)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("optimize", no_args_is_help=True)(optimize)


def optimize(
    bundles: Annotated[
        list[Path], typer.Argument(metavar="BUNDLE…", help="Captured dispatches of one kernel")
    ],
    *,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="RUNDIR", help="Run folder; resumed if it is one"),
    ],
    held_out: Annotated[
        list[Path] | None,
        typer.Option(
            "--held-out",
            metavar="BUNDLE",
            help="Unseen by the search; only what passes on it is released; repeatable",
        ),
    ] = None,
    vary: Annotated[
        int,
        typer.Option("--vary", min=0, max=100, metavar="N", help="… and on N variations of each"),
    ] = 0,
    device: DeviceName = "emulated",
    max_candidates: Annotated[
        int | None,
        typer.Option("--max-candidates", min=1, metavar="N", help="Judge at most N candidates"),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="TIME", help="Stop after TIME: 60s, 5m, 1h; no limit by default"
        ),
    ] = None,
    timeout_s: LaunchTimeout = 60.0,
    as_json: AsJson = False,
) -> None:
    """Search for a faster code object that does the same to memory

    Every candidate is assembled, proved against its parent, replayed on all bundles and compared
    byte by byte before its time is looked at. Times of the emulated device are modelled, not
    measured. The search can be killed at any moment; run again with the same RUNDIR, it goes on.
    Exit code 3 when no candidate passed.

    asmevo optimize captures/softmax-000.aeb -o runs/softmax

    asmevo optimize captures/rmsnorm-*.aeb -o runs/rmsnorm --for 5m
    """
    from asmevo.optimizer.run import optimize as run_optimize
    from asmevo.optimizer.run import read_bundles
    from asmevo.optimizer.search import Budget
    from asmevo.replay.device import Device
    from asmevo.replay.proof import describe_proof

    budget = Budget(candidates=max_candidates, seconds=_parse_duration(duration))
    captured = read_bundles(bundles)
    chosen = Device.parse(device, arch=captured.arch)
    for note in describe_proof(chosen):
        typer.echo(f"note: {note}", err=True)
    with _show_progress() as progress:
        summary = run_optimize(
            captured,
            output,
            device=chosen,
            budget=budget,
            held_out=held_out or [],
            vary=vary,
            timeout_s=timeout_s,
            progress=progress,
        )
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary, output)
    if not summary["has_improved"]:
        raise typer.Exit(3)


def _parse_duration(text: str | None) -> float | None:
    if text is None:
        return None
    match = _DURATION.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"--for {text[:20]!r} is no duration", hint="write 60s, 5m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def _show_progress() -> AbstractContextManager[Callable[[int, str, float], None] | None]:
    """A line on stderr that follows the search, on a terminal only."""
    import sys
    from contextlib import contextmanager, nullcontext

    if not sys.stderr.isatty():
        return nullcontext(None)

    @contextmanager
    def show() -> Iterator[Callable[[int, str, float], None]]:
        from rich.console import Console

        with Console(stderr=True).status("Replaying K0") as status:

            def update(attempts: int, mutator: str, speedup: float) -> None:
                status.update(f"{attempts} candidates, now {mutator}, best {speedup:.3f}× of K0")

            yield update

    return show()


def _print_summary(summary: dict[str, Any], output: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    unit = summary["cost_unit"]
    title = f"{summary['kernel']} on {summary['device']} ({summary['arch']})"
    table = Table(title=printable(title))
    table.add_column("bundle", overflow="fold")
    for name in (f"K0, {unit}", f"best, {unit}", f"speedup, {unit.split()[0]}"):
        table.add_column(name, justify="right")
    for row in summary["bundles"]:
        before, after = row["k0"], row["best"]
        table.add_row(
            Path(row["path"]).name, f"{before:,.6g}", f"{after:,.6g}", f"{before / after:.4f}"
        )
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(table)
    verdicts = ", ".join(f"{count} {name}" for name, count in summary["verdicts"].items())
    console.print(f"{summary['attempts']} candidates judged: {verdicts or 'none'}")
    committed = ", ".join(summary["committed"]) or "nothing"
    console.print(f"committed: {committed} ({summary['ended']})")
    for one in summary["held_out"]["rejected"]:
        line = f"{one['sha256'][:12]} is not released: {one['status']} on {one['bundle']}"
        console.print(printable(f"{line}: {one['reason']}"))
    for mutator, reason in summary["refusals"].items():
        console.print(f"{mutator} refused: {reason}")
    console.print(f"Wrote {output / 'best.hsaco'}")
