"""May two memory accesses of one wave change places?

Lanes have addresses of their own, so a store at `base + 0` of one lane and a load at `base + 4` of
another may meet even though the instructions name one base register: offsets prove nothing between
different lanes. What does prove independence is that both only read, or that they go to address
spaces that do not overlap.

Other waves watch the order too. A store may be the flag that says that all before it is done, and
LLVM's memory model (AMDGPUUsage) marks such a release store neither in LDS nor, on gfx90a, in
global memory.
"""

from __future__ import annotations

from asmevo.codeobject.analysis.effect import Access, Effect, MemoryAccess, Space

__all__ = ["may_conflict", "may_order_by_wait", "may_release"]

_REACHED = {
    Space.GLOBAL: frozenset({Space.GLOBAL}),
    Space.CONSTANT: frozenset({Space.GLOBAL}),
    Space.LDS: frozenset({Space.LDS}),
    Space.SCRATCH: frozenset({Space.SCRATCH}),
    Space.FLAT: frozenset({Space.GLOBAL, Space.LDS, Space.SCRATCH}),
}


def may_conflict(first: Effect, second: Effect) -> bool:
    """True unless the order of the two accesses certainly does not matter."""
    one, other = first.memory, second.memory
    if one is None or other is None:
        return False
    if one.is_ordered or other.is_ordered:
        return True
    if not (_writes(one) or _writes(other)):
        return False
    return bool(_reached(one) & _reached(other))


def may_release(first: Effect, second: Effect) -> bool:
    """True when `second` may tell other waves that `first`, which stands before it, is done."""
    one, other = first.memory, second.memory
    if one is None or other is None or other.access is not Access.STORE:
        return False
    return Space.SCRATCH not in (one.space, other.space) and one.space is not Space.CONSTANT


def may_order_by_wait(first: Effect, second: Effect, arch: str) -> bool:
    """True when a wait between two accesses may be what lets `second` see `first` done.

    No register shows it: LDS-DMA fills LDS that the same wave reads, a scalar load reads what a
    vector store wrote, a store releases what came before. From gfx940 on global release stores
    have scope bits, which make them synchronise.
    """
    one, other = first.memory, second.memory
    if one is None:
        return False
    if other is None:
        return one.writes_lds and second.base == "s_endpgm"
    if may_conflict(first, second) and not _are_in_one_queue(first, second):
        return True
    if not may_release(first, second):
        return False
    return arch == "gfx90a" or (other.space is Space.LDS and _writes(one))


def _are_in_one_queue(first: Effect, second: Effect) -> bool:
    """True when the hardware carries out the two in the order in which they were issued."""
    if first.unit is not second.unit:
        return False
    one, other = first.memory, second.memory
    if one is None or other is None or one.writes_lds == other.writes_lds:
        return True
    return Space.FLAT not in (one.space, other.space)


def _writes(access: MemoryAccess) -> bool:
    return access.access is not Access.LOAD or access.writes_lds


def _reached(access: MemoryAccess) -> frozenset[Space]:
    spaces = _REACHED[access.space]
    return spaces | {Space.LDS} if access.writes_lds else spaces
