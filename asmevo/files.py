"""Whole files or none: write beside, sync, rename."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_whole", "write_whole"]


@contextmanager
def open_whole(path: Path, *, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Open a file that appears at `path` only when the block ends without an exception.

    The data goes to `NAME.PID.partial` in the same folder, is synced and renamed over `path`. The
    file has the permission bits of `mode` that the umask allows.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_whole(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write `data` to `path`, whole or not at all."""
    with open_whole(path, mode=mode) as file:
        file.write(data)
