"""`asmevo doctor`: what is here, what is missing, and the command that installs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from asmevo.commands.options import AsJson, print_json, printable

if TYPE_CHECKING:
    from asmevo.diagnosis import Check

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("doctor")(doctor)


def doctor(
    device: Annotated[
        str | None,
        typer.Option("--device", help="Prove that replay works there: emulated[:CHIP] or hip[:N]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what is here, what is missing, and how to get it

    Exit code 4 when something required is missing. With --device a small dispatch and wrong
    versions of it are replayed on that device; exit code 1 when it does not do as it must.

    asmevo doctor

    asmevo doctor --device hip:0
    """
    if device is not None:
        _test_device(device, as_json=as_json)
        return
    from asmevo.diagnosis import Importance, run_checks

    checks = run_checks()
    if as_json:
        print_json({"checks": [check.to_json() for check in checks]})
    else:
        _render(checks)

    def is_blocking(check: Check) -> bool:
        return not check.is_fine and check.importance is Importance.REQUIRED

    if any(map(is_blocking, checks)):
        raise typer.Exit(4)


def _test_device(name: str, *, as_json: bool) -> None:
    from asmevo.replay.device import Device
    from asmevo.replay.self_test import run_self_test

    steps = []
    for step in run_self_test(Device.parse(name)):
        steps.append(step)
        if not as_json:
            mark = "ok  " if step.has_passed else "FAIL"
            typer.echo(printable(f"{mark} {step.name}: {step.found or step.problem}"))
    if as_json:
        print_json({"device": name, "steps": [step.to_json() for step in steps]})
    if not all(step.has_passed for step in steps):
        raise typer.Exit(1)


def _render(checks: tuple[Check, ...]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from asmevo.diagnosis import Importance

    table = Table(show_header=False, box=None, pad_edge=False)
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        if check.is_fine:
            mark, text = "[green]ok[/]", escape(check.found)
        else:
            is_required = check.importance is Importance.REQUIRED
            mark = "[red]missing[/]" if is_required else "[yellow]absent[/]"
            text = f"{escape(check.problem)}\n  {escape(check.fix)}"
        table.add_row(mark, check.name, text)
    Console().print(table)
