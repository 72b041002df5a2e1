"""May two memory accesses of one wave change places?

Lanes have addresses of their own, so a store at `base + 0` of one lane and a load at `base + 4` of
another may meet even though the instructions name one base register: offsets prove nothing between
different lanes. What does prove independence is that both only read, or that they go to address
spaces that do not overlap.
"""

from __future__ import annotations

from asmevo.codeobject.analysis.effect import Access, Effect, MemoryAccess, Space

__all__ = ["may_conflict"]

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


def _writes(access: MemoryAccess) -> bool:
    return access.access is not Access.LOAD or access.writes_lds


def _reached(access: MemoryAccess) -> frozenset[Space]:
    spaces = _REACHED[access.space]
    return spaces | {Space.LDS} if access.writes_lds else spaces
