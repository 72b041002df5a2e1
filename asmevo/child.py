"""Starts the program that a command is to run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import NoReturn

from asmevo.errors import UsageError

__all__ = ["become", "find_program", "run_to_end"]


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


def run_to_end(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run `command` and give its exit code, 128 and the signal's number where one ended it.

    Ctrl-C reaches it from the terminal, SIGTERM is passed on; this process lives until it ends.

    Raises:
        UsageError: It cannot be started.
    """
    program = find_program(command[0])
    try:
        child = subprocess.Popen([program, *command[1:]], env=dict(environment))
    except OSError as error:
        raise UsageError(f"cannot start {program}: {error.strerror}") from error
    on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    on_end = signal.signal(signal.SIGTERM, lambda number, _frame: child.send_signal(number))
    try:
        code = child.wait()
    finally:
        signal.signal(signal.SIGINT, on_interrupt)
        signal.signal(signal.SIGTERM, on_end)
    return code if code >= 0 else 128 - code
