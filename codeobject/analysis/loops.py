"""Loops of a flow graph: natural loops with their nesting, and cycles that are none.

A back edge goes to a block that dominates its source; the loop is what lies on paths from the head
to it. A cycle that can be entered in two places has no head: it is irreducible and has no loop
here. With all back edges taken away, exactly the irreducible cycles are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from asmevo.codeobject.analysis.dominance import DominatorTree, Edges

__all__ = ["Loop", "LoopForest", "find_loops"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A natural loop; block indices throughout. Loops with one head are one loop."""

    head: int
    body: frozenset[int]
    """All its blocks, the head and those of inner loops among them."""
    latches: tuple[int, ...]
    """Sources of its back edges."""
    exits: tuple[tuple[int, int], ...]
    """Edges that leave it, as (from, to)."""
    parent: int | None
    """Index in the forest of the loop that this one is directly inside."""
    depth: int
    """1 for an outermost loop."""


@dataclass(frozen=True, kw_only=True)
class LoopForest:
    """All loops of a kernel, outer ones before those inside them."""

    loops: tuple[Loop, ...]
    irreducible: tuple[frozenset[int], ...]
    """Blocks of cycles without a head that dominates them, natural loops' back edges aside."""

    @property
    def is_reducible(self) -> bool:
        """True when every cycle is a natural loop."""
        return not self.irreducible

    @cached_property
    def blocks(self) -> frozenset[int]:
        """Blocks that may execute more than once, on whatever kind of cycle."""
        bodies = (loop.body for loop in self.loops)
        return frozenset().union(*bodies, *self.irreducible)

    @cached_property
    def innermost(self) -> dict[int, int]:
        """Index of the innermost loop of each block that is in one."""
        # Inner loops stand behind outer ones and overwrite them.
        return {block: at for at, loop in enumerate(self.loops) for block in loop.body}

    def depth(self, block: int) -> int:
        """How many natural loops are around a block."""
        return self.loops[self.innermost[block]].depth if block in self.innermost else 0


def find_loops(
    order: Sequence[int], successors: Edges, predecessors: Edges, dominators: DominatorTree
) -> LoopForest:
    """Loops among the reachable blocks `order`."""
    latches: dict[int, list[int]] = {}
    for block in order:
        for head in successors[block]:
            if dominators.dominates(head, block):
                latches.setdefault(head, []).append(block)
    reachable = frozenset(order)
    bodies = {
        head: _find_body(head, sources, predecessors, reachable)
        for head, sources in latches.items()
    }
    # Two natural loops with different heads are disjoint or one is inside the other, unless an
    # irreducible cycle entangles them: then the smaller one is not a subset and has no parent.
    heads = sorted(bodies, key=lambda head: (-len(bodies[head]), order.index(head)))
    loops: list[Loop] = []
    for head in heads:
        body = bodies[head]
        around = [at for at, loop in enumerate(loops) if body < loop.body]
        parent = min(around, key=lambda at: len(loops[at].body), default=None)
        loops.append(
            Loop(
                head=head,
                body=body,
                latches=tuple(latches[head]),
                exits=tuple(
                    (block, following)
                    for block in sorted(body)
                    for following in successors[block]
                    if following not in body
                ),
                parent=parent,
                depth=1 if parent is None else loops[parent].depth + 1,
            )
        )
    return LoopForest(
        loops=tuple(loops), irreducible=_find_irreducible(order, successors, dominators)
    )


def _find_body(
    head: int, latches: Sequence[int], predecessors: Edges, reachable: frozenset[int]
) -> frozenset[int]:
    body = {head}
    pending = list(latches)
    while pending:
        block = pending.pop()
        if block not in body:
            body.add(block)
            pending += [one for one in predecessors[block] if one in reachable]
    return frozenset(body)


def _find_irreducible(
    order: Sequence[int], successors: Edges, dominators: DominatorTree
) -> tuple[frozenset[int], ...]:
    """Cycles that are left without back edges, as strongly connected components (Tarjan)."""
    number: dict[int, int] = {}
    lowest: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    found = []

    def forward(block: int) -> list[int]:
        return [one for one in successors[block] if not dominators.dominates(one, block)]

    def enter(block: int) -> tuple[int, list[int]]:
        number[block] = lowest[block] = len(number)
        path.append(block)
        on_path.add(block)
        return block, forward(block)

    for root in order:
        stack = [enter(root)] if root not in number else []
        while stack:
            block, following = stack[-1]
            if following:
                child = following.pop()
                if child not in number:
                    stack.append(enter(child))
                elif child in on_path:
                    lowest[block] = min(lowest[block], number[child])
                continue
            stack.pop()
            if stack:
                outer = stack[-1][0]
                lowest[outer] = min(lowest[outer], lowest[block])
            if lowest[block] == number[block]:
                component = set(path[path.index(block) :])
                del path[-len(component) :]
                on_path -= component
                if len(component) > 1:
                    found.append(frozenset(component))
    return tuple(found)
