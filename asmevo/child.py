"""Becomes the program that a command is to run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import NoReturn

from asmevo.errors import UsageError

__all__ = ["become", "find_program"]


def find_program(name: str) -> str:
    """The path of a program as the shell would find it.

    Raises:
        UsageError: There is none, or it is not executable.
    """
    path = shutil.which(name)
    if path is None:
        raise UsageError(f"program {name[:200]!r} was not found or is not executable")
    return path


def become(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by `command`.

    Raises:
        UsageError: It cannot be started.
    """
    program = find_program(command[0])
    try:
        os.execve(program, list(command), dict(environment))
    except OSError as error:
        raise UsageError(f"cannot start {program}: {error.strerror}") from error
