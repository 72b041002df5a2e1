"""A limit for work on code objects that nobody vouches for.

LLVM's runs are bounded one by one; this bounds their sum and our own loops.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Final, NoReturn

__all__ = ["OutOfTime", "time_limit"]

_OBJECT_SECONDS: Final = 600
# An exception that is raised inside a callback of the interpreter is lost: it comes again.
_AGAIN_SECONDS: Final = 0.5


class OutOfTime(BaseException):
    """The work was cut short. No `except Exception` on the way may take it for its own."""


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    """Raise OutOfTime in the block when it takes too long. Only the main thread is limited."""
    seconds = _OBJECT_SECONDS
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> NoReturn:
        raise OutOfTime(f"took longer than {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
