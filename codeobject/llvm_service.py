"""A process that keeps LLVM loaded and answers decode and encode requests, restarted when it dies.

Starting llvm-objdump or llvm-mc costs more than most requests. Loading LLVM into our own process
would be faster still, but one malformed instruction could end it: LLVM's decoder crashes on some
words, and its assembler may call `report_fatal_error` or run without end. So it is a process of its
own, as in `llvm_worker`, bounded in memory and in time, and what it dies of is an error of one
request.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from asmevo.codeobject.process import limit_tool, tool_environment
from asmevo.errors import AssemblerError

__all__ = ["LibraryCrash", "LibraryError", "LlvmService", "find_service", "worker_command"]

_WORKER: Final = Path(__file__).parent / "llvm_worker.py"
_REQUEST: Final = struct.Struct("<cII")
_FRAME: Final = struct.Struct("<cI")
_MAX_ANSWER_BYTES: Final = 1 << 30
_PROBE: Final = b'.section .asmevo.code,"ax",@progbits\ns_nop 0\n'
_PROBE_ANSWER: Final = bytes.fromhex("04000000 000080bf") + b"4\ts_nop 0"
# By the clock, so it must do for a busy machine.
_TIMEOUT_S: Final = 300.0
# LLVM keeps a little of every request; a fresh process now and then bounds the sum.
_MAX_REQUESTS: Final = 20_000


class LibraryError(Exception):
    """LLVM refused a request: `LINE MESSAGE` lines."""


class LibraryCrash(Exception):
    """The process died of a request; `partial` is what it had answered by then."""

    def __init__(self, partial: bytes) -> None:
        """Keep what there was of an answer."""
        super().__init__("LLVM crashed")
        self.partial = partial


def worker_command(library: str) -> tuple[str, ...]:
    """The command that starts a worker on `library`."""
    return (sys.executable, "-I", "-S", str(_WORKER), library)


class LlvmService:
    """One worker process. Safe for several threads; a forked child starts its own."""

    def __init__(self, library: str) -> None:
        """Nothing is started before the first request."""
        self._library = library
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._requests = 0
        self._works: bool | None = None
        self._assembles: bool | None = None
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    @property
    def is_usable(self) -> bool:
        """True when the library can be loaded; asked once."""
        if self._works is None:
            try:
                self._works = bool(self.request(b"v", "", b""))
            except (LibraryCrash, LibraryError, AssemblerError):
                self._works = False
        return self._works

    @property
    def can_assemble(self) -> bool:
        """True when the library assembles too; asked once."""
        if self._assembles is None:
            try:
                probe = self.request(b"e", "gfx942", _PROBE) if self.is_usable else b""
                self._assembles = probe == _PROBE_ANSWER
            except (LibraryCrash, LibraryError, AssemblerError):
                self._assembles = False
        return self._assembles

    def request(self, kind: bytes, processor: str, data: bytes) -> bytes:
        """The answer's payload.

        Raises:
            LibraryCrash: The process died; the next request starts another one.
            LibraryError: LLVM refused, or lacks this function.
            AssemblerError: There is no such process, or it takes too long.
        """
        name = processor.encode()
        with self._lock:
            process = self._start()
            try:
                return self._exchange(
                    process, _REQUEST.pack(kind, len(name), len(data)), name, data
                )
            except LibraryError:
                raise
            except BaseException:
                # Also for an interrupt in the middle: the next answer would be this request's.
                self._end()
                raise

    def close(self) -> None:
        """End the process."""
        if self._owner == os.getpid():
            self._end()

    def _forget(self) -> None:
        # The pipes belong to the parent, and its lock may be held by a thread that is not here.
        self._process = None
        self._lock = threading.Lock()

    def _start(self) -> subprocess.Popen[bytes]:
        self._requests += 1
        if self._process is not None and self._requests > _MAX_REQUESTS:
            self._end()
        if self._process is None or self._process.poll() is not None:
            self._end()
            try:
                self._process = subprocess.Popen(
                    worker_command(self._library),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=tool_environment(),
                    # Ctrl-C is for us; we end it.
                    start_new_session=True,
                )
            except OSError as error:
                raise AssemblerError(f"cannot start LLVM: {error.strerror or error}") from error
            limit_tool(self._process.pid)
            self._owner = os.getpid()
            self._requests = 1
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            # What was still to be written to a dead process.
            with contextlib.suppress(OSError):
                pipe and pipe.close()
        process.kill()
        process.wait()

    def _exchange(
        self, process: subprocess.Popen[bytes], head: bytes, name: bytes, data: bytes
    ) -> bytes:
        assert process.stdin and process.stdout
        deadline = time.monotonic() + _TIMEOUT_S
        partial = b""
        try:
            # The worker reads a request whole before it answers, so this cannot block for ever.
            process.stdin.write(head + name + data)
            process.stdin.flush()
            for kind, payload in self._frames(process.stdout.fileno(), deadline):
                if kind == b"p":
                    partial += payload
                elif kind == b"e":
                    raise LibraryError(payload.decode("utf-8", "replace"))
                else:
                    return partial + payload
        except (BrokenPipeError, ConnectionResetError):
            pass
        raise LibraryCrash(partial)

    def _frames(self, pipe: int, deadline: float) -> Iterator[tuple[bytes, bytes]]:
        """Frames of an answer, until the pipe ends."""
        while True:
            head = self._read(pipe, _FRAME.size, deadline)
            if len(head) < _FRAME.size:
                return
            kind, size = _FRAME.unpack(head)
            if size > _MAX_ANSWER_BYTES:
                raise AssemblerError(f"LLVM's answer of {size} bytes is too long")
            payload = self._read(pipe, size, deadline)
            if len(payload) < size:
                return
            yield kind, payload

    def _read(self, pipe: int, size: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        while size:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise AssemblerError(f"LLVM took longer than {_TIMEOUT_S:g} s")
            part = os.read(pipe, min(size, 1 << 20))
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


_services: Final[dict[str, LlvmService]] = {}


def find_service(library: str) -> LlvmService:
    """The process that serves `library`, one for each in this process."""
    if library not in _services:
        _services[library] = LlvmService(library)
    return _services[library]
