"""The processes below one, from /proc."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from asmevo.capture.target_process import is_running

__all__ = ["find_descendants", "has_hip"]


def find_descendants(root: int) -> tuple[int, ...]:
    """The process and all below it that are there now, parents first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent_of(int(name))) is not None:
            children.setdefault(parent, []).append(int(name))
    found, pending = [], [root] if is_running(root) else []
    while pending:
        pid = pending.pop(0)
        found.append(pid)
        pending.extend(sorted(children.get(pid, [])))
    return tuple(found)


def has_hip(pid: int) -> bool:
    """Whether the process has the HIP library mapped; False where it may not be looked at."""
    with contextlib.suppress(OSError):
        return "libamdhip64.so" in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    return False


def _parent_of(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return int(stat.rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None
