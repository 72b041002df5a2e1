"""`manifest.txt` of a swap folder: what the interposer replaces by what.

The C side, `manifest.c`, reads the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asmevo.errors import UsageError
from asmevo.files import write_whole

__all__ = ["MANIFEST_NAME", "SwapEntry", "read_manifest", "write_manifest"]

MANIFEST_NAME = "manifest.txt"

# The number changes with any change of the line format: both readers refuse what they do not know.
_HEADER = "asmevo-swap 1"
_MAX_BYTES = 4 << 20
_MAX_ENTRIES = 4096
_LINE = re.compile(
    r"([0-9a-f]{64}) ([1-9][0-9]{0,9}) ([0-9a-f]{64}) ([1-9][0-9]{0,9})"
    r" ([A-Za-z0-9_+:-][A-Za-z0-9._+:-]{0,62}) ([A-Za-z0-9_+:-][A-Za-z0-9._+:-]{0,199})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapEntry:
    """One replacement: the original object's hash and size, the optimized one's, and its file."""

    k0_sha256: str
    k0_size: int
    optimized_sha256: str
    optimized_size: int
    arch: str
    file_name: str

    def to_line(self) -> str:
        """As a line of the manifest."""
        return (
            f"{self.k0_sha256} {self.k0_size} {self.optimized_sha256} {self.optimized_size} "
            f"{self.arch} {self.file_name}"
        )


def write_manifest(folder: Path, entries: Sequence[SwapEntry]) -> None:
    """Write the manifest of a swap folder, whole or not at all."""
    lines = [_HEADER, *(entry.to_line() for entry in entries)]
    text = "\n".join(lines) + "\n"
    _parse(text, where="new manifest")  # what no reader would accept is not written
    write_whole(folder / MANIFEST_NAME, text.encode())


def read_manifest(folder: Path) -> tuple[SwapEntry, ...]:
    """Read the manifest of a swap folder.

    Raises:
        UsageError: There is none, or the interposer would not accept it.
    """
    path = folder / MANIFEST_NAME
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="asmevo swap pack makes one") from error
    if len(data) > _MAX_BYTES or not data.isascii():
        raise UsageError(f"{path}: not a swap manifest")
    return _parse(data.decode("ascii"), where=str(path))


def _parse(text: str, *, where: str) -> tuple[SwapEntry, ...]:
    lines = text.split("\n")
    if lines[0] != _HEADER:
        raise UsageError(f"{where}: line 1 is not {_HEADER!r}")
    if lines.pop() != "":
        raise UsageError(f"{where}: cut short")
    if len(lines) - 1 > _MAX_ENTRIES:
        raise UsageError(f"{where}: more than {_MAX_ENTRIES} entries")
    entries = [_parse_line(line, f"{where}: line {i}") for i, line in enumerate(lines[1:], 2)]
    if len({entry.k0_sha256 for entry in entries}) != len(entries):
        raise UsageError(f"{where}: one code object is replaced twice")
    return tuple(entries)


def _parse_line(line: str, where: str) -> SwapEntry:
    match = _LINE.fullmatch(line)
    if match is None:
        raise UsageError(f"{where} is malformed")
    k0_sha256, k0_size, optimized_sha256, optimized_size, arch, file_name = match.groups()
    return SwapEntry(
        k0_sha256=k0_sha256,
        k0_size=int(k0_size),
        optimized_sha256=optimized_sha256,
        optimized_size=int(optimized_size),
        arch=arch,
        file_name=file_name,
    )
