"""Runs one LLVM tool: bounded in time, memory and output, and able to die without harm."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from asmevo.errors import AssemblerError, MissingToolError

__all__ = ["Finished", "limit_tool", "run_tool", "tool_environment"]

_MEMORY_BYTES: Final = 8 << 30
_FILE_BYTES: Final = 1 << 30
_PATIENCE: Final = 10
# Variables that would load foreign code into the tool (the emulated device's, the shim's).
_DROPPED: Final = ("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What a tool left behind. A negative `code` is the signal that ended it."""

    code: int
    output: bytes
    errors: str

    @property
    def has_crashed(self) -> bool:
        """True for a signal or for LLVM's own crash handler and `zig`'s, which exit with 128 +
        signal."""
        return self.code < 0 or self.code > 128


def run_tool(command: Sequence[str], data: bytes = b"", *, timeout_s: float = 60.0) -> Finished:
    """Run `command` with `data` on its standard input, for `timeout_s` of CPU time.

    By the clock it may take ten times as long: on a busy machine that says nothing of the input.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=tool_environment(),
        )
    except OSError as error:
        raise MissingToolError(
            f"cannot run {command[0]}: {error.strerror or error}", hint="see `asmevo doctor`"
        ) from error
    with process:
        limit_tool(process.pid, cpu_seconds=math.ceil(timeout_s))
        try:
            output, errors = process.communicate(data, timeout=_PATIENCE * timeout_s)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise AssemblerError(
                f"{command[0]} took longer than {_PATIENCE * timeout_s:g} s"
            ) from error
        except BaseException:
            process.kill()
            raise
    if process.returncode == -signal.SIGXCPU:
        raise AssemblerError(f"{command[0]} took longer than {timeout_s:g} s of CPU time")
    return Finished(code=process.returncode, output=output, errors=errors.decode(errors="replace"))


def tool_environment() -> dict[str, str]:
    """Our environment without what would load foreign code into a tool."""
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    return environment | {"LC_ALL": "C"}


def limit_tool(pid: int, *, cpu_seconds: int | None = None) -> None:
    """Bound memory, files and CPU time of a tool that was just started."""
    # prlimit after the start instead of preexec_fn, which is not safe in a process with threads. A
    # tool that has already ended needs no limit.
    with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        if cpu_seconds is not None:
            resource.prlimit(pid, resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
