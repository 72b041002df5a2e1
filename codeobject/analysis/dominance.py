"""Dominators of a flow graph, and post-dominators as those of the reversed graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["ROOT", "DominatorTree", "Edges", "build_dominator_tree", "reverse_post_order"]

ROOT = -1
"""The parent of what nothing else dominates: the virtual node in front of all roots."""

Edges = Sequence[Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class DominatorTree:
    """Immediate dominators of all nodes that some root reaches."""

    parents: dict[int, int]
    """For each node its immediate dominator, or `ROOT`."""

    def dominates(self, first: int, second: int) -> bool:
        """True when every path from a root to `second` passes `first`; each node does itself.

        False where no root reaches one of the two.
        """
        if first not in self.parents or second not in self.parents:
            return False
        (start, end), (inner, _) = self._spans[first], self._spans[second]
        return start <= inner < end

    def ancestors(self, node: int) -> tuple[int, ...]:
        """The nodes that dominate `node`, itself first, the outermost last."""
        found = []
        while node != ROOT:
            found.append(node)
            node = self.parents[node]
        return tuple(found)

    @cached_property
    def _spans(self) -> dict[int, tuple[int, int]]:
        """Number of each node in a walk over the tree, and one behind its last descendant's."""
        children: dict[int, list[int]] = {}
        for node, parent in self.parents.items():
            children.setdefault(parent, []).append(node)
        spans: dict[int, tuple[int, int]] = {}
        starts: dict[int, int] = {}
        pending = [(node, False) for node in children.get(ROOT, [])]
        while pending:
            node, is_done = pending.pop()
            if is_done:
                spans[node] = (starts[node], len(starts))
                continue
            starts[node] = len(starts)
            pending.append((node, True))
            pending += [(child, False) for child in children.get(node, [])]
        return spans


def reverse_post_order(successors: Edges, roots: Sequence[int]) -> tuple[int, ...]:
    """All reachable nodes, each before its successors save for edges that close a cycle."""
    seen: set[int] = set()
    finished: list[int] = []
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(successors[root]))]
        while stack:
            node, following = stack[-1]
            child = next((one for one in following if one not in seen), None)
            if child is None:
                finished.append(node)
                stack.pop()
            else:
                seen.add(child)
                stack.append((child, iter(successors[child])))
    return tuple(reversed(finished))


def build_dominator_tree(
    successors: Edges, predecessors: Edges, roots: Sequence[int]
) -> DominatorTree:
    """The iterative algorithm of Cooper, Harvey and Kennedy (A Simple, Fast Dominance Algorithm).

    `roots` may be several, and may have predecessors.
    """
    order = reverse_post_order(successors, roots)
    place = {node: at for at, node in enumerate(order)} | {ROOT: -1}
    parents: dict[int, int] = dict.fromkeys(roots, ROOT)
    is_root = frozenset(roots)
    changed = True
    while changed:
        changed = False
        for node in order:
            if node in is_root:
                continue
            known = [one for one in predecessors[node] if one in parents]
            parent = known[0]
            for other in known[1:]:
                parent = _meet(parents, place, parent, other)
            if parents.get(node) != parent:
                parents[node] = parent
                changed = True
    return DominatorTree(parents=parents)


def _meet(parents: dict[int, int], place: dict[int, int], first: int, second: int) -> int:
    """The nearest node that dominates both."""
    while first != second:
        while place[first] > place[second]:
            first = parents[first]
        while place[second] > place[first]:
            second = parents[second]
    return first
