"""The swap command: run a program with optimized code objects in place of the original ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from asmevo.commands.options import AsJson, Force, print_json, printable

__all__ = ["register"]

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Swap folder")]

app = typer.Typer(no_args_is_help=True, help="Swap optimized code objects into a program")


def register(parent: typer.Typer) -> None:
    """Add the command to the command line."""
    parent.add_typer(app, name="swap")


@app.command("pack", no_args_is_help=True)
def pack(
    run_folders: Annotated[
        list[Path], typer.Argument(metavar="RUNDIR…", help="Folders of asmevo optimize")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Swap folder to write")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a swap folder out of optimizer runs

    A run without an improvement is refused.

    asmevo swap pack runs/softmax -o swap

    asmevo swap pack runs/* -o swap --force
    """
    from asmevo.errors import UsageError
    from asmevo.shim.pack import pack as pack_runs
    from asmevo.shim.swap_manifest import MANIFEST_NAME

    if (output / MANIFEST_NAME).exists() and not force:
        raise UsageError(f"{output} is a swap folder already", hint="--force replaces it")
    entries = pack_runs(run_folders, output)
    if as_json:
        print_json({"output": str(output), "entries": [_to_json(entry) for entry in entries]})
        return
    for entry in entries:
        typer.echo(f"{entry.k0_sha256[:16]} -> {entry.file_name} ({entry.arch})")
    typer.echo(f"Wrote {output / MANIFEST_NAME}")


@app.command("run", no_args_is_help=True)
def run(
    folder: Folder,
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD…", help="The program and its arguments")
    ],
    log: Annotated[
        Path | None, typer.Option(help="Append the swap log to this file, not DIR/log/PID.log")
    ] = None,
) -> None:
    """Run a program that loads the optimized objects of a swap folder

    Where an optimized object is missing, damaged or refused by the runtime,
    the program gets its own, and the log says why.

    asmevo swap run swap -- python server.py

    asmevo swap run swap --log swap.log -- python server.py
    """
    from asmevo.shim.launch import exec_with_shim

    exec_with_shim(folder, command, log=log)


@app.command("status", no_args_is_help=True)
def status(folder: Folder, as_json: AsJson = False) -> None:
    """Print what the programs that ran with a swap folder swapped

    asmevo swap status swap

    asmevo swap status swap --json
    """
    from asmevo.shim.swap_log import EventKind, read_folder

    events = read_folder(folder)
    if as_json:
        print_json({"events": [_to_json(event) for event in events]})
        return
    if not events:
        typer.echo(f"No program ran with {folder} yet")
    for event in events:
        name = f" {event.k0_sha256[:16]}" if event.k0_sha256 else ""
        arrow = " ->" if event.kind is EventKind.SWAPPED else ":"
        line = f"{event.time_utc} {event.pid} {event.kind}{name}{arrow} {event.detail}"
        typer.echo(printable(line))


def _to_json(record: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(record)
