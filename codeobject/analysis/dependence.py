"""Which instructions of a block must keep their order.

A vector write under a mask that may be partial mixes with the old value, so it reads its
destination too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from asmevo.codeobject.analysis.effect import Effect
from asmevo.codeobject.analysis.memory_dependence import may_conflict, may_release
from asmevo.codeobject.analysis.register import VECTOR_MASK, RegisterSet, iterate_registers

__all__ = ["BlockItem", "find_order", "keep_queue_order", "must_keep_order", "reads_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockItem:
    """An instruction of a block with what decides its place."""

    id: int
    effect: Effect
    is_entry_mask: bool
    """EXEC is certainly the entry mask here: a vector write leaves nothing of the old value."""


def reads_of(item: BlockItem) -> RegisterSet:
    """Registers whose old value the instruction uses, masked destinations included."""
    effect = item.effect
    if effect.is_vector and not item.is_entry_mask:
        return effect.reads | effect.writes & VECTOR_MASK
    return effect.reads


def must_keep_order(first: Effect, second: Effect) -> bool:
    """True when memory or synchronisation keeps the two in this order, whatever their registers."""
    if may_conflict(first, second) or may_release(first, second):
        return True
    pins = first.is_pinned or second.is_pinned
    both = all(effect.is_pinned or effect.memory is not None for effect in (first, second))
    return (pins and both) or first.is_terminator or second.is_terminator


@dataclass(slots=True, kw_only=True)
class _Definition:
    """One write of a register, or its value at block entry (`at` is -1)."""

    at: int
    readers: list[int] = field(default_factory=list)


def find_order(items: Sequence[BlockItem], live_out: RegisterSet) -> list[set[int]]:
    """For each place in the block, the places that must stay before it.

    Writes that nobody reads (SCC of most scalar arithmetic) are ordered only against live values.
    """
    before: list[set[int]] = [set() for _ in items]
    _order_by_registers(items, live_out, before)
    ordered = [
        at
        for at, item in enumerate(items)
        if item.effect.memory is not None or item.effect.is_pinned
    ]
    for place, at in enumerate(ordered):
        for earlier in ordered[:place]:
            if must_keep_order(items[earlier].effect, items[at].effect):
                before[at].add(earlier)
    if items and items[-1].effect.is_terminator:
        before[-1] |= set(range(len(items) - 1))
    return before


def keep_queue_order(items: Sequence[BlockItem], before: list[set[int]]) -> None:
    """Add to an order that operations of one wait counter stay in their order.

    Waits of later blocks then mean what they meant.
    """
    for counts in (
        [at for at, item in enumerate(items) if item.effect.counts_vm],
        [at for at, item in enumerate(items) if item.effect.counts_lgkm],
    ):
        for earlier, later in pairwise(counts):
            before[later].add(earlier)


def _order_by_registers(
    items: Sequence[BlockItem], live_out: RegisterSet, before: list[set[int]]
) -> None:
    definitions: dict[int, list[_Definition]] = {}
    for at, item in enumerate(items):
        for register in iterate_registers(reads_of(item)):
            history = definitions.setdefault(register, [_Definition(at=-1)])
            history[-1].readers.append(at)
        for register in iterate_registers(item.effect.writes):
            definitions.setdefault(register, [_Definition(at=-1)]).append(_Definition(at=at))
    for register, history in definitions.items():
        is_live_out = bool(live_out >> register & 1)
        _order_definitions(history, is_live_out, before)


def _order_definitions(
    history: list[_Definition], is_live_out: bool, before: list[set[int]]
) -> None:
    """Reads follow their definition; no other definition comes between."""
    last = len(history) - 1
    live = [
        place
        for place, definition in enumerate(history)
        if definition.readers or (place == last and is_live_out) or place == 0
    ]
    for definition in history:
        for reader in definition.readers:
            if definition.at >= 0 and definition.at != reader:
                before[reader].add(definition.at)
    for place, definition in enumerate(history):
        if definition.at < 0:
            continue
        # The nearest live value before must be finished with; a live value after must come later.
        previous = history[max(at for at in live if at < place)]
        before[definition.at] |= {
            at for at in (previous.at, *previous.readers) if 0 <= at != definition.at
        }
        following = next((at for at in live if at > place), None)
        if following is not None and place not in live:
            before[history[following].at].add(definition.at)
