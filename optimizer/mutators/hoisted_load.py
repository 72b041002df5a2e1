"""S2: hoist a load above independent work; waits and nops of its block are derived afresh."""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.codeobject.analysis.dependence import find_order
from asmevo.codeobject.analysis.effect import Access
from asmevo.optimizer.block_order import ReorderRefusal, reorder_block
from asmevo.optimizer.kernel_view import KernelView
from asmevo.optimizer.proposal import Proposal

__all__ = ["HoistedLoad"]


class HoistedLoad:
    """Issues a load, and what its address needs, as early in its block as its operands allow.

    EXEC and everything that the address needs stay in front, so the load touches exactly the
    addresses that it did; barriers, coherent accesses and stores that may alias are not crossed.
    """

    id = "S2"
    title = "hoist loads"
    is_combinable = False
    is_monotone = False

    def propose(self, view: KernelView) -> Iterator[Proposal]:
        """One proposal for each load that can issue earlier; the longest way first."""
        found = []
        for block in view.program.order:
            items = view.block_items(block)
            before = find_order(items, view.live_out(block))
            for at, item in enumerate(items):
                memory = item.effect.memory
                if memory is None or memory.access is not Access.LOAD or not item.effect.loaded:
                    continue
                needed = _ancestors(at, before)
                others = [one for one in range(at) if one not in needed]
                if not others:
                    continue
                order = [*sorted(needed), at, *others, *range(at + 1, len(items))]
                found.append((len(others), block, at, order))
        for crossed, block, at, order in sorted(found, reverse=True):
            items = view.block_items(block)
            try:
                edits = reorder_block(view, block, [items[one] for one in order])
            except ReorderRefusal:
                continue
            yield Proposal(
                mutator=self.id,
                sites=(items[at].id,),
                edits=edits,
                hypothesis=f"the load issues {crossed} instructions earlier",
            )


def _ancestors(at: int, before: list[set[int]]) -> set[int]:
    """All that must stay before an instruction, directly or not."""
    found: set[int] = set()
    pending = [at]
    while pending:
        for one in before[pending.pop()] - found:
            found.add(one)
            pending.append(one)
    return found
