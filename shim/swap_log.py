"""What the interposer wrote into its logs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from asmevo.errors import UsageError

__all__ = ["Event", "EventKind", "read_folder", "read_log", "read_logs"]

_MAX_LOG_BYTES = 64 << 20
_LINE = re.compile(r"(\S{1,40}) (\d{1,10}) (active|inactive|swapped|kept)(?: ([0-9a-f]{64}))?(.*)")


class EventKind(StrEnum):
    """First word of a log line."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    SWAPPED = "swapped"
    KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line: the interposer hooked the library, swapped an object, or kept K0 and why."""

    time_utc: str
    pid: int
    kind: EventKind
    k0_sha256: str | None
    detail: str  # file name, or the reason


def read_log(path: Path) -> tuple[Event, ...]:
    """Events of one log; lines that are not events are left out."""
    with path.open("rb") as file:
        text = file.read(_MAX_LOG_BYTES).decode(errors="replace")
    return tuple(event for line in text.splitlines() if (event := _parse_line(line)))


def read_logs(paths: Iterable[Path]) -> tuple[Event, ...]:
    """Events of several logs in the order of time."""
    events = [event for path in paths for event in read_log(path)]
    return tuple(sorted(events, key=lambda event: event.time_utc))


def read_folder(folder: Path) -> tuple[Event, ...]:
    """Events of all programs that ran with a swap folder.

    Raises:
        UsageError: There is no such folder, or a log cannot be read.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="asmevo swap pack makes one")
    try:
        return read_logs(sorted((folder / "log").glob("*.log")))
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from error


def _parse_line(line: str) -> Event | None:
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    time_utc, pid, kind, k0_sha256, rest = match.groups()
    return Event(
        time_utc=time_utc,
        pid=int(pid),
        kind=EventKind(kind),
        k0_sha256=k0_sha256,
        detail=rest.removeprefix(" ->").removeprefix(":").strip(),
    )
