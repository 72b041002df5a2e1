"""Gets into a running process with Frida, and out of it again, leaving it as it was.

Frida only loads the resident C library and calls it: no code of the target is patched.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import logging
import mmap
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from asmevo.capture.channel import Channel, FridaChannel
from asmevo.capture.control_block import CONTROL_VERSION, Control, ControlBlock, map_shared
from asmevo.capture.loaded_objects import LoadedObjects
from asmevo.capture.target_process import (
    ProcessMemory,
    TargetProcess,
    explain_denied,
    find_target,
    has_frida_agent,
    is_running,
)
from asmevo.errors import AsmevoError, MissingToolError, TargetError
from asmevo.native import capture_library

__all__ = ["AttachedTarget", "attach"]

_log = logging.getLogger(__name__)

_AGENT = Path(__file__).parent / "agent" / "agent.js"

# The hooks take themselves out when they have not heard of us for so long.
_PATIENCE_S = 5.0
_HEARTBEAT_S = 0.5

# A target that exits while the agent is on its way out may crash: wait until it is gone, and a bit.
_LEAVE_TIMEOUT_S = 10.0
_LEAVE_GRACE_S = 1.0

INITIAL_DATA_BYTES = 16 << 20


class AttachedTarget:
    """A process with our hooks in it: what the collector needs of it."""

    def __init__(self, process: TargetProcess, channel: Channel) -> None:
        """Open a session in the process."""
        self.process = process
        self._channel = channel
        self._data: mmap.mmap | None = None
        self._is_started = False
        with _explained(process.pid):
            control_fd = channel.open(process.hip_paths)
        memory = map_shared(process.pid, control_fd, minimum_bytes=ctypes.sizeof(Control))
        self.control = ControlBlock(memory)
        self.memory = ProcessMemory(process.pid)
        with _explained(process.pid):
            lists = channel.find_debug_lists()
        if not lists:
            _log.warning(
                "the HIP runtime of the process keeps no list of its code objects: they are looked "
                "for in its memory"
            )
        self.objects = LoadedObjects(self.memory, lists)
        self._stop = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="asmevo-heartbeat", daemon=True)
        self._heart.start()
        self.reserve(INITIAL_DATA_BYTES)

    @property
    def is_alive(self) -> bool:
        """False once the process has ended, is about to, or has thrown the agent out."""
        return self._channel.is_open and is_running(self.process.pid)

    @property
    def data(self) -> mmap.mmap:
        """The memory that snapshots are copied into."""
        if self._data is None:
            raise TargetError("no data memory is reserved")
        return self._data

    def reserve(self, size: int) -> None:
        """Make room for snapshots of `size` bytes; only while the record is ours."""
        self._data = None
        with _explained(self.process.pid):
            descriptor = self._channel.reserve(size)
        self._data = map_shared(self.process.pid, descriptor, minimum_bytes=size)

    def hook(self) -> int:
        """Swap the slots; the number of functions hooked."""
        with _explained(self.process.pid):
            return self._channel.hook()

    def start(self) -> None:
        """Everything is set up: a program that was started for the capture goes on."""
        if self._is_started:
            return
        self._is_started = True
        with _explained(self.process.pid):
            self._channel.go()

    def forget_functions(self) -> None:
        """Have every function asked about again."""
        with _explained(self.process.pid):
            self._channel.forget()

    def close(self) -> None:
        """Put the slots back."""
        self._stop.set()
        if not self.is_alive:
            return
        with _explained(self.process.pid):
            foreign = self._channel.close()
        if foreign:
            _log.warning("%d functions were hooked by another tool meanwhile: left alone", foreign)

    def _beat(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(ValueError):  # unmapped while we were asleep
                self.control.keep_alive(_PATIENCE_S)
            self._stop.wait(_HEARTBEAT_S)


@contextlib.contextmanager
def attach(pid: int) -> Iterator[AttachedTarget]:
    """Attach to a process; put everything back and leave it at the end of the block.

    Raises:
        TargetError: The process cannot be attached to; it was not touched, or is as it was.
    """
    process = find_target(pid)
    library = capture_library()
    frida = _import_frida()
    with _alone(pid):
        yield from _attach(frida, process, library)


def _attach(frida: Any, process: TargetProcess, library: Path) -> Iterator[AttachedTarget]:
    pid = process.pid
    with _explained(pid):
        session = frida.attach(pid)
    target = None
    try:
        with _explained(pid):
            script = session.create_script(_AGENT.read_text(), name="asmevo")
            script.load()
        version = _load(script, library, pid)
        if version != CONTROL_VERSION:
            raise TargetError(
                f"process {pid} has a capture library of another asmevo version loaded",
                hint="restart the process",
            )
        target = AttachedTarget(process, FridaChannel(session, script.exports_sync))
        yield target
    finally:
        with _interrupts_held():
            _leave(pid, session, target)


@contextlib.contextmanager
def _alone(pid: int) -> Iterator[None]:
    """Keep other captures of the process out: two agents that enter at one time may crash it.

    The lock is on the process's own /proc file, so it is there for every user and leaves nothing.
    """
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(Path(f"/proc/{pid}/status").open())
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TargetError(
                f"process {pid}: another capture of this process is running"
            ) from error
        except OSError as error:
            raise TargetError(f"process {pid} has ended already") from error
        yield


def _load(script: Any, library: Path, pid: int) -> int:
    """Load the library into the target; its version."""
    with _explained(pid):
        if _is_seen_by(pid, library):
            return int(script.exports_sync.load(str(library)))
        if (descriptor := _find_loaded_image(pid)) is not None:
            return int(script.exports_sync.load(f"/proc/self/fd/{descriptor}"))
        return int(script.exports_sync.load_image(library.read_bytes().hex()))


def _leave(pid: int, session: Any, target: AttachedTarget | None) -> None:
    try:
        if target is not None:
            target.close()
    except AsmevoError as error:
        if is_running(pid):
            _log.warning("hooks of process %d: %s; they take themselves out", pid, error)
    finally:
        if not session.is_detached:
            with contextlib.suppress(Exception):  # it may end in this very moment
                session.detach()
        deadline = time.monotonic() + _LEAVE_TIMEOUT_S
        while has_frida_agent(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        if is_running(pid):
            time.sleep(_LEAVE_GRACE_S)


def _is_seen_by(pid: int, library: Path) -> bool:
    """Whether the target has this file at this path: in a container it may not."""
    seen = Path(f"/proc/{pid}/root{library}")
    try:
        return os.path.samestat(seen.stat(), library.stat())
    except PermissionError as error:
        raise explain_denied(pid) from error
    except OSError:
        return False


def _find_loaded_image(pid: int) -> str | None:
    """Descriptor by which an earlier capture has loaded the library into the target."""
    folder = Path(f"/proc/{pid}/fd")
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.readlink(folder / name).startswith("/memfd:asmevo-library"):
                    return name
    return None


def _import_frida() -> Any:
    try:
        import frida
    except ImportError as error:
        raise MissingToolError(
            f"frida cannot be loaded: {error}", hint="pip install frida==17.26.2"
        ) from error
    return frida


@contextlib.contextmanager
def _explained(pid: int) -> Iterator[None]:
    """Turn Frida's exceptions into one line of ours."""
    frida = _import_frida()
    rules: tuple[tuple[type[Exception], Callable[[Exception], TargetError]], ...] = (
        (frida.ProcessNotFoundError, lambda _: TargetError(f"there is no process {pid}")),
        (frida.PermissionDeniedError, lambda _: explain_denied(pid)),
        (
            frida.ProcessNotRespondingError,
            lambda _: TargetError(f"process {pid} does not respond: stopped or being debugged?"),
        ),
        (
            frida.InvalidOperationError,
            lambda _: TargetError(f"process {pid} ended during the capture"),
        ),
    )
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("frida", "_frida")):
            raise
        for kind, make in rules:
            if isinstance(error, kind):
                raise make(error) from error
        message = str(error.args[0] if error.args else error).removeprefix("Error: ")
        raise TargetError(f"process {pid}: {message}") from error


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Leaving a target takes a second or two: a second signal must not cut that short."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, signal.SIG_IGN) for one in held]
    try:
        yield
    finally:
        for one, handler in zip(held, before, strict=True):
            signal.signal(one, handler)
