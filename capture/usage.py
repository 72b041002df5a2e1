"""Lists the kernels of running processes."""

from __future__ import annotations

import logging
import threading

from asmevo.capture.attach import attach
from asmevo.capture.listing import Usage, count_launches
from asmevo.capture.process_tree import find_descendants, has_hip
from asmevo.capture.target_process import is_running
from asmevo.errors import AsmevoError, TargetError

__all__ = ["list_usage"]

_log = logging.getLogger(__name__)


def list_usage(pid: int, seconds: float, *, with_children: bool) -> dict[int, Usage]:
    """Count launches for a while, in all processes at one time.

    Raises:
        TargetError: The process cannot be attached to, or none of the tree launches kernels.
    """
    if not with_children:
        return {pid: _count(pid, seconds)}
    if not is_running(pid):
        raise TargetError(f"there is no process {pid}")
    pids = [one for one in find_descendants(pid) if has_hip(one)]
    if not pids:
        raise TargetError(f"process {pid} and those below it have no libamdhip64.so loaded")
    usages: dict[int, Usage] = {}
    errors: list[AsmevoError] = []

    def work(one: int) -> None:
        try:
            usages[one] = _count(one, seconds)
        except AsmevoError as error:
            _log.warning("process %d: %s", one, error)
            errors.append(error)

    threads = [threading.Thread(target=work, args=(one,)) for one in pids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not usages:
        raise errors[0]
    return {one: usages[one] for one in pids if one in usages}


def _count(pid: int, seconds: float) -> Usage:
    with attach(pid) as target:
        return count_launches(target, seconds)
