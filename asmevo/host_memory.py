"""How much memory this machine can still give."""

from __future__ import annotations

from pathlib import Path

__all__ = ["available_bytes"]


def available_bytes() -> int:
    """What can be allocated without swapping, by the kernel's estimate."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
