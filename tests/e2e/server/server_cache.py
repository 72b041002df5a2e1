"""Where the demo server keeps what it makes and what was fetched for it."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(*parts: str) -> Path:
    """A folder of the asmevo cache (`$ASMEVO_CACHE` or `~/.cache/asmevo`), made when missing."""
    root = os.environ.get("ASMEVO_CACHE")
    folder = (Path(root) if root else Path.home() / ".cache" / "asmevo").joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
