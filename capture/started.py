"""Starts a program and captures it from its first launch, with everything that it starts."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from asmevo.capture.attach import AttachedTarget
from asmevo.capture.channel import SocketChannel
from asmevo.capture.collector import Observer
from asmevo.capture.control_block import CONTROL_VERSION
from asmevo.capture.crew import Crew
from asmevo.capture.outcome import CaptureOptions, CaptureResult
from asmevo.capture.target_process import find_target
from asmevo.capture.touched import Helpers
from asmevo.child import find_program
from asmevo.errors import AsmevoError, MissingToolError, TargetError, UsageError
from asmevo.native import capture_library, capture_preload_library

__all__ = ["capture_started"]

_log = logging.getLogger(__name__)

_LOOK_S = 0.05
_HELLO_S = 10.0
_CALL_S = 60.0


def capture_started(
    command: Sequence[str],
    options: CaptureOptions,
    observer: Observer,
    helpers: Helpers | None = None,
) -> tuple[CaptureResult, int]:
    """Run a program to its end and capture it; the outcome and the program's exit code.

    Raises:
        UsageError: It cannot be started.
        MissingToolError: The preloaded library lies where LD_PRELOAD cannot name it.
    """
    program = find_program(command[0])
    listener, name = _listen()
    crew = Crew(options, observer, helpers)
    server = threading.Thread(target=_serve, args=(listener, crew), daemon=True)
    try:
        child = subprocess.Popen([program, *command[1:]], env=_environment(os.environ, name))
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot start {program}: {error.strerror}") from error
    server.start()
    try:
        while child.poll() is None and not crew.is_over:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_LOOK_S)
    except BaseException:
        child.send_signal(signal.SIGTERM)
        raise
    finally:
        _stop_listening(listener)
        result = crew.finish()
    return result, child.wait()


def _environment(environment: Mapping[str, str], name: str) -> dict[str, str]:
    library = str(capture_preload_library())
    if set(library) & {" ", ":"}:
        raise MissingToolError(
            f"LD_PRELOAD cannot name {library}: it divides paths at blanks and colons",
            hint="install asmevo in a folder without them",
        )
    preload = [library, *environment.get("LD_PRELOAD", "").replace(":", " ").split()]
    return {
        **environment,
        "LD_PRELOAD": ":".join(dict.fromkeys(preload)),
        "ASMEVO_CAPTURE_SOCKET": name,
        "ASMEVO_CAPTURE_LIBRARY": str(capture_library()),
    }


def _listen() -> tuple[socket.socket, str]:
    """A socket in Linux's abstract namespace: it leaves no file behind."""
    name = f"asmevo-capture-{os.getpid()}-{secrets.token_hex(8)}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0{name}")
    listener.listen(64)
    return listener, name


def _stop_listening(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
    listener.close()


def _serve(listener: socket.socket, crew: Crew) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        try:
            pid = _peer_of(connection)
            channel = SocketChannel(connection)
            crew.take(pid, partial(_open, pid, channel))
        except (OSError, TargetError) as error:
            _log.warning("a started program cannot be captured: %s", error)
            connection.close()


def _peer_of(connection: socket.socket) -> int:
    """The process at the other end; only our own user's may talk to us."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, user, _ = struct.unpack("=iII", credentials)
    if user not in (os.getuid(), 0):
        raise TargetError("it runs as another user")
    connection.settimeout(_HELLO_S)
    return int(pid)


@contextlib.contextmanager
def _open(pid: int, channel: SocketChannel) -> Iterator[AttachedTarget]:
    target = None
    try:
        _, version = channel.receive_hello()
        if version != CONTROL_VERSION:
            raise TargetError("its capture library is of another asmevo version")
        channel.set_timeout(_CALL_S)
        target = AttachedTarget(find_target(pid), channel)
        yield target
    finally:
        if target is not None:
            with contextlib.suppress(AsmevoError):
                target.close()
        channel.disconnect()
