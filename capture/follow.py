"""Captures a running process and those below it, also ones that start or load HIP later."""

from __future__ import annotations

import time
from functools import partial

from asmevo.capture.attach import attach
from asmevo.capture.collector import Observer
from asmevo.capture.crew import Crew
from asmevo.capture.outcome import CaptureOptions, CaptureResult
from asmevo.capture.process_tree import find_descendants, has_hip
from asmevo.capture.target_process import is_running
from asmevo.capture.touched import Helpers
from asmevo.errors import TargetError

__all__ = ["capture_tree"]

_LOOK_S = 0.1


def capture_tree(
    root: int, options: CaptureOptions, observer: Observer, helpers: Helpers | None = None
) -> CaptureResult:
    """Capture until every process has what is wanted, or the time is over.

    Processes are found by looking, not by Frida's child gating: that hangs children which a
    program forks for a subprocess.

    Raises:
        TargetError: There is no such process.
    """
    if not is_running(root):
        raise TargetError(f"there is no process {root}")
    crew = Crew(options, observer, helpers)
    try:
        known = {root}
        while not crew.is_over:
            # A worker whose parent has ended belongs to init: those once seen stay in the list.
            known = {pid for old in known for pid in find_descendants(old)}
            if not known:
                break
            for pid in sorted(known):
                if not crew.knows(pid) and has_hip(pid):
                    crew.take(pid, partial(attach, pid))
            time.sleep(_LOOK_S)
    finally:
        result = crew.finish()
    return result
