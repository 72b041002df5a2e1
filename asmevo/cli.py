"""The command line: collects the commands, prints errors in one place, sets exit codes."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Annotated, NoReturn

import typer

import asmevo
from asmevo.commands import (
    bundle,
    capture,
    check,
    doctor,
    emulate,
    optimize,
    recover,
    replay,
    roundtrip,
    swap,
)
from asmevo.commands.options import printable
from asmevo.errors import AsmevoError

__all__ = ["app", "main"]

_INTERRUPTED = 130  # what typer makes of Ctrl-C

app = typer.Typer(
    name="asmevo",
    help="Capture, replay, optimize and swap compiled AMD Instinct kernels",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    doctor,
    emulate,
    capture,
    bundle,
    replay,
    check,
    recover,
    roundtrip,
    optimize,
    swap,
):
    module.register(app)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"asmevo {asmevo.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version"),
    ] = False,
) -> None:
    """Options that stand before the command."""


def _configure_logging() -> None:
    """ASMEVO_LOG=capture:debug,shim:info sets levels per module; messages go to stderr."""
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    for item in filter(None, os.environ.get("ASMEVO_LOG", "").split(",")):
        name, _, level = item.partition(":")
        known = logging.getLevelNamesMapping().get(level.upper() or "INFO", logging.INFO)
        logging.getLogger(f"asmevo.{name}").setLevel(known)


def _end(number: int, _frame: object) -> NoReturn:
    """End by an exception, so that a captured process is left and unfinished files are removed."""
    sys.exit(128 + number)


def main() -> NoReturn:
    """Run the command line; every AsmevoError becomes one line on stderr and its exit code."""
    _configure_logging()
    signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except AsmevoError as error:
        print(f"asmevo: {printable(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # a disk that is full, a folder that went away
        where = f"{error.filename}: " if error.filename else ""
        print(f"asmevo: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(1)
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            print("asmevo: interrupted", file=sys.stderr)
        raise
    sys.exit(0)


if __name__ == "__main__":
    main()
