"""How asmevo calls the resident library inside a target."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from asmevo.errors import TargetError

__all__ = ["Channel", "FridaChannel", "SocketChannel"]

_LINE_BYTES = 8192


class Channel(Protocol):
    """A way into the target."""

    @property
    def is_open(self) -> bool:
        """False once nobody answers any more."""

    def open(self, paths: Sequence[str]) -> int:
        """Open a session on the copies of the library; the control block's descriptor."""

    def reserve(self, size: int) -> int:
        """Make data memory; its descriptor."""

    def hook(self) -> int:
        """Put the hooks in; how many."""

    def forget(self) -> None:
        """Drop what is known about functions."""

    def close(self) -> int:
        """Take the hooks out; how many somebody else has hooked since."""

    def find_debug_lists(self) -> list[int]:
        """Addresses of the runtime's lists of code objects."""

    def go(self) -> None:
        """Let the program run on, where it waits."""


class FridaChannel:
    """Through Frida's agent; errors are Frida's."""

    def __init__(self, session: Any, exports: Any) -> None:
        """`session` and `exports` are Frida's."""
        self._session = session
        self._exports = exports

    @property
    def is_open(self) -> bool:
        """Whether the agent is there."""
        return not self._session.is_detached

    def open(self, paths: Sequence[str]) -> int:
        """Open a session."""
        return int(self._exports.open("\n".join(paths)))

    def reserve(self, size: int) -> int:
        """Make data memory."""
        return int(self._exports.reserve(size))

    def hook(self) -> int:
        """Put the hooks in."""
        return int(self._exports.hook())

    def forget(self) -> None:
        """Drop what is known about functions."""
        self._exports.forget()

    def close(self) -> int:
        """Take the hooks out."""
        return int(self._exports.close())

    def find_debug_lists(self) -> list[int]:
        """Addresses of the lists."""
        return [int(address, 16) for address in self._exports.find_debug_lists()]

    def go(self) -> None:
        """Frida does not hold the program."""


class SocketChannel:
    """Through the socket of the preloaded library (`preload/preload.c`)."""

    def __init__(self, connection: socket.socket) -> None:
        """The connection belongs to the channel from now on."""
        self._connection = connection
        self._file = connection.makefile("rwb")
        self._lock = threading.Lock()
        self._is_open = True

    @property
    def is_open(self) -> bool:
        """Whether the connection still works, as far as was seen."""
        return self._is_open

    def set_timeout(self, seconds: float) -> None:
        """How long the program may take to answer."""
        self._connection.settimeout(seconds)

    def receive_hello(self) -> tuple[int, int]:
        """Process id and version of the library.

        Raises:
            TargetError: Something else came.
        """
        words = self._receive().split()
        if len(words) != 3 or words[0] != "hello" or not all(w.isdigit() for w in words[1:]):
            raise TargetError("a program answered that is not asmevo's library")
        return int(words[1]), int(words[2])

    def open(self, paths: Sequence[str]) -> int:
        """Open a session."""
        return int(self._call("open " + "\t".join(paths)))

    def reserve(self, size: int) -> int:
        """Make data memory."""
        return int(self._call(f"reserve {size}"))

    def hook(self) -> int:
        """Put the hooks in."""
        return int(self._call("hook"))

    def forget(self) -> None:
        """Drop what is known about functions."""
        self._call("forget")

    def close(self) -> int:
        """Take the hooks out."""
        return int(self._call("close"))

    def find_debug_lists(self) -> list[int]:
        """Addresses of the lists."""
        return [int(word, 16) for word in self._call("lists").split()]

    def go(self) -> None:
        """Let the thread that loaded the library return."""
        self._call("go")

    def disconnect(self) -> None:
        """End the connection; the library takes its hooks out if that was not done."""
        self._is_open = False
        with contextlib.suppress(OSError):
            self._file.close()
        self._connection.close()

    def _call(self, command: str) -> str:
        if "\n" in command or len(command) >= _LINE_BYTES:
            raise TargetError("the path of libamdhip64 is too long or odd")
        with self._lock:
            try:
                self._file.write(command.encode() + b"\n")
                self._file.flush()
            except (OSError, ValueError) as error:
                self._is_open = False
                raise TargetError("the program has ended") from error
            status, _, rest = self._receive().partition(" ")
        if status == "ok":
            return rest or "0" if command != "lists" else rest
        raise TargetError(rest or "the program gave an odd answer")

    def _receive(self) -> str:
        try:
            line = self._file.readline(_LINE_BYTES)
        except (OSError, ValueError):
            line = b""
        if not line.endswith(b"\n"):
            self._is_open = False
            raise TargetError("the program has ended")
        return line[:-1].decode(errors="replace")
