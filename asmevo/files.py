"""Whole files or none: write beside, sync, rename. Reading with a limit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from asmevo.errors import UsageError

__all__ = ["open_whole", "read_bounded", "write_whole"]


@contextmanager
def open_whole(path: Path, *, mode: int = 0o600, is_synced: bool = True) -> Iterator[BinaryIO]:
    """Open a file that appears at `path` only when the block ends without an exception.

    The data goes to `NAME.PID.partial` in the same folder, is synced and renamed over `path`. The
    file has the permission bits of `mode` that the umask allows. Without `is_synced` it is whole
    for every process, but perhaps not after a crash of the machine: the caller syncs it.

    Raises:
        UsageError: The file cannot be made.
    """
    partial = path.absolute().with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder")
        partial.unlink(missing_ok=True)
        # O_EXCL: in a folder that others write to, nobody else's file or link is written through.
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if not is_synced:
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_bounded(path: Path, limit_bytes: int) -> bytes:
    """The content of a file that somebody else may have made.

    Raises:
        UsageError: It cannot be read, or holds more than `limit_bytes` (as /dev/zero does).
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    if len(data) > limit_bytes:
        raise UsageError(f"{path}: larger than {limit_bytes} bytes")
    return data


def write_whole(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write `data` to `path`, whole or not at all."""
    with open_whole(path, mode=mode) as file:
        file.write(data)
