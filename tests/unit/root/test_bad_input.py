"""Every command that reads files, with files that are none of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from asmevo.cli import app
from asmevo.errors import AsmevoError

# The command, with IN for the bad file and OUT for what it would write.
_COMMANDS = (
    "bundle show IN",
    "replay IN",
    "optimize IN -o OUT",
    "recover IN -o OUT",
    "swap pack IN -o OUT",
    "swap status IN",
    "swap run IN -- true",
)
_BAD = {
    "absent": None,
    "empty": b"",
    "foreign": b"\x7fELF\x02\x01\x01" + bytes(57),
    "text": b"hello\n" * 100,
}


# To a command that reads a folder, a folder is no bad input.
_CASES = [
    (command, bad)
    for command in (*_COMMANDS, "rebuild IN -o OUT")
    for bad in (*_BAD, "folder", "endless")
    if not (bad == "folder" and command.startswith(("swap status", "swap run")))
]


@pytest.mark.parametrize(("command", "bad"), _CASES)
def test_command_with_a_bad_file_names_it_and_writes_nothing(
    tmp_path: Path, command: str, bad: str
) -> None:
    path = tmp_path / "input"
    if bad == "folder":
        path.mkdir()
    elif bad == "endless":
        path = Path("/dev/zero")
    elif (content := _BAD[bad]) is not None:
        path.write_bytes(content)
    places = {"IN": str(path), "OUT": str(tmp_path / "output")}
    arguments = [places.get(word, word) for word in command.split()]

    result = CliRunner().invoke(app, arguments)

    error = result.exception
    assert isinstance(error, AsmevoError), error
    is_assembly_refused = command.startswith("rebuild") and bad in ("empty", "foreign", "text")
    assert error.exit_code == (1 if is_assembly_refused else 2)
    assert str(path) in str(error)
    assert not (tmp_path / "output").exists()
