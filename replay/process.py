"""The engine's side of a worker process: start, send, receive before a deadline, end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import Any

from asmevo.errors import ReplayError
from asmevo.replay.address_hold import hold_environment, write_ranges
from asmevo.replay.layout import Mapping as MemoryMapping

__all__ = ["WorkerProcess"]

_LOG_TAIL_BYTES = 4096
_END_TIMEOUT_S = 30.0
_MESSAGE_LIMIT_BYTES = 64 << 20


class WorkerProcess:
    """A worker, which may hang or die at any time. Close it in any case."""

    def __init__(self, environment: Mapping[str, str], held: Iterable[MemoryMapping]) -> None:
        """Start it with this environment; it reserves `held` before anything else."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._buffer = bytearray()
        self._results, results_end = os.pipe()
        life_end, self._life = os.pipe()
        ranges = write_ranges(held)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "asmevo.replay.worker", str(results_end), str(life_end)],
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=self._log,
                env=hold_environment(environment, ranges, results_end),
                pass_fds=(results_end, life_end, ranges),
                start_new_session=True,
            )
        except OSError:
            os.close(self._results)
            os.close(self._life)
            self._log.close()
            raise
        finally:
            os.close(results_end)
            os.close(life_end)
            os.close(ranges)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def send(self, line: str) -> None:
        """Write a line to its stdin; a worker that is gone shows at the next `receive`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass

    def receive(self, timeout_s: float) -> dict[str, Any] | None:
        """The next message, None when the worker has ended.

        Raises:
            TimeoutError: Nothing came in time.
        """
        deadline = time.monotonic() + timeout_s
        while (end := self._buffer.find(b"\n")) < 0:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._results], [], [], left)[0]:
                raise TimeoutError
            data = os.read(self._results, 1 << 16)
            if not data:
                return None
            self._buffer += data
            if len(self._buffer) > _MESSAGE_LIMIT_BYTES:
                raise ReplayError("a replay worker sent a message without end")
        line = self._buffer[:end]
        del self._buffer[: end + 1]
        message: dict[str, Any] = json.loads(line)
        return message

    def describe_end(self) -> str:
        """How it ended, after `receive` gave None, and the last line that it wrote."""
        code = self._wait()
        how = f"exit code {code}"
        if code < 0:
            number = -code
            names = {item.value: item.name for item in signal.Signals}
            how = f"signal {number} ({names.get(number, 'unknown')})"
        size = os.fstat(self._log.fileno()).st_size
        start = max(0, size - _LOG_TAIL_BYTES)
        lines = (
            os.pread(self._log.fileno(), _LOG_TAIL_BYTES, start)
            .decode(errors="replace")
            .split("\n")
        )
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"{how}: {last}" if last else how

    def _wait(self) -> int:
        """Its exit code; a process that a driver holds in the kernel may not end at all."""
        try:
            return self._process.wait(timeout=_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise ReplayError(
                f"the replay worker (pid {self.pid}) does not end",
                hint="the device may hang: see dmesg",
            ) from None

    def close(self) -> None:
        """End it, by force when it runs, with all that it started."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._wait()
        os.close(self._results)
        os.close(self._life)
        self._log.close()
