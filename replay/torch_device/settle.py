"""Lets torch's backward threads come to rest before the interpreter goes away.

A backward pass on a device runs on a thread of torch's. When `backward()` returns, that thread may
still have Python objects to release (nodes of autograd functions), for which it takes the GIL. If
the interpreter is finalizing by then, Python ends the thread by unwinding it, and C++ ends the
process: "terminate called without an active exception".
"""

from __future__ import annotations

import atexit
import contextlib
from pathlib import Path

__all__ = ["settle_at_exit"]

_THREAD_PREFIX = "pt_autograd_"


def settle_at_exit() -> None:
    """Arrange for it; to be called once."""
    atexit.register(_settle, [])


def _has_backward_threads() -> bool:
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            if (thread / "comm").read_text().startswith(_THREAD_PREFIX):
                return True
    return False


def _settle(kept: list[object]) -> None:
    """Queue a pass behind all others: it starts when its thread is done with them.

    It has no Python nodes itself, and its leaf lives on in `kept`.
    """
    if not _has_backward_threads():
        return
    import torch

    with contextlib.suppress(Exception), torch.enable_grad():  # the device may have failed
        leaf = torch.zeros(1, device="cuda", requires_grad=True)
        kept.append(leaf)
        leaf.sum().backward()  # type: ignore[no-untyped-call]
