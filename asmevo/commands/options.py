"""Options and output that several commands share, so that they are spelled alike everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated

import typer

__all__ = ["AsJson", "DeviceName", "Force", "LaunchTimeout", "print_json", "printable"]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else")]
Force = Annotated[bool, typer.Option("-f", "--force", help="Overwrite what is there already")]
DeviceName = Annotated[str, typer.Option("--device", help="emulated[:CHIP] or hip[:N]")]
LaunchTimeout = Annotated[
    float, typer.Option("--timeout", min=0.1, max=86400, help="Limit of one launch, in seconds")
]


def printable(text: str) -> str:
    """Control characters from a foreign file or process must not reach the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_json(data: Mapping[str, object]) -> None:
    """Print the one object of `--json`."""
    typer.echo(json.dumps(data, indent=1, allow_nan=False))
