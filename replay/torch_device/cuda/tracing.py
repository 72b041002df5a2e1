"""`torch.cuda.nvtx`: ranges are counted and go nowhere, as without a profiler."""

from __future__ import annotations

import itertools
import threading
from types import ModuleType

__all__ = ["make_module"]

_thread = threading.local()
_range_ids = itertools.count(1)


def _push(message: str) -> int:
    depth: int = getattr(_thread, "depth", 0)
    _thread.depth = depth + 1
    return depth


def _pop() -> int:
    depth: int = getattr(_thread, "depth", 0) - 1
    _thread.depth = max(depth, 0)
    return depth  # -1: nothing was pushed, as NVTX says


def make_module() -> ModuleType:
    """What `torch._C._nvtx` is in a build with CUDA."""
    module = ModuleType("torch._C._nvtx")
    members = {
        "deviceRangeEnd": lambda handle, stream: None,
        "deviceRangeStart": lambda message, stream: next(_range_ids),
        "markA": lambda message: None,
        "rangeEnd": lambda range_id: None,
        "rangePop": _pop,
        "rangePushA": _push,
        "rangeStartA": lambda message: next(_range_ids),
    }
    vars(module).update(members)
    return module
