"""S3: list-schedule a block by critical path; waits and nops are derived afresh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from asmevo.codeobject.analysis.dependence import BlockItem, find_order, keep_queue_order
from asmevo.codeobject.analysis.hazard_rules import Traits, find_requirements
from asmevo.optimizer.block_order import ReorderRefusal, reorder_block
from asmevo.optimizer.kernel_view import KernelView
from asmevo.optimizer.latency import ISSUE_CLOCKS, issue_clocks, result_clocks
from asmevo.optimizer.proposal import Proposal

__all__ = ["BlockSchedule", "Policy"]


class Policy(StrEnum):
    """What goes first among the instructions that can issue at once."""

    CRITICAL_PATH = "critical path"
    """What the most clocks hang on."""
    LOADS_FIRST = "loads first"
    """What a load needs, then the old order."""
    FILL_STALLS = "fill stalls"
    """The old order; only what would stall gives way."""


class BlockSchedule:
    """Issues what others wait for early. No register is renamed, so none is added."""

    id = "S3"
    title = "schedule blocks"
    is_combinable = True
    is_monotone = False

    def __init__(self, policy: Policy = Policy.CRITICAL_PATH) -> None:
        """Schedule by one policy."""
        self._policy = policy

    def propose(self, view: KernelView) -> Iterator[Proposal]:
        """One proposal for each block that has another order; blocks in loops first."""
        program = view.program
        looped = program.loops.blocks
        for block in sorted(program.order, key=lambda one: one not in looped):
            items = view.block_items(block)
            if len(items) < 3:
                continue
            before = find_order(items, view.live_out(block))
            proposal = self._reorder(view, block, items, before)
            if proposal is None:
                keep_queue_order(items, before)
                proposal = self._reorder(view, block, items, before)
            if proposal is not None:
                yield proposal

    def _reorder(
        self,
        view: KernelView,
        block: int,
        items: Sequence[BlockItem],
        before: Sequence[set[int]],
    ) -> Proposal | None:
        order = _schedule(items, before, self._policy, view.arch)
        if order == list(items):
            return None
        try:
            edits = reorder_block(view, block, order)
        except ReorderRefusal:
            return None
        moved = sum(one is not other for one, other in zip(items, order, strict=True))
        return Proposal(
            mutator=self.id,
            sites=(items[0].id, items[-1].id),
            edits=edits,
            hypothesis=f"{self._policy}: {moved} of {len(items)} instructions move",
        )


def _schedule(
    items: Sequence[BlockItem], before: Sequence[set[int]], policy: Policy, arch: str
) -> list[BlockItem]:
    """Greedy list scheduling on a machine that issues in order."""
    delays = _find_delays(items, before, arch)
    ranks = _rank(items, before, delays, policy, arch)
    after: list[list[int]] = [[] for _ in items]
    for at, earlier in enumerate(before):
        for one in earlier:
            after[one].append(at)
    open_count = [len(earlier) for earlier in before]
    earliest = [0] * len(items)
    ready = {at for at, count in enumerate(open_count) if not count}
    now, order = 0, []
    while ready:
        # What can issue now goes by rank; when nothing can, what can issue soonest.
        chosen = min(ready, key=lambda at: (max(earliest[at] - now, 0), ranks[at], at))
        ready.remove(chosen)
        now = max(now, earliest[chosen])
        for one in after[chosen]:
            earliest[one] = max(earliest[one], now + delays[chosen, one])
            open_count[one] -= 1
            if not open_count[one]:
                ready.add(one)
        now += issue_clocks(items[chosen].effect, arch)
        order.append(items[chosen])
    return order


def _find_delays(
    items: Sequence[BlockItem], before: Sequence[set[int]], arch: str
) -> dict[tuple[int, int], int]:
    """Clocks that must or should lie between the issue of two ordered instructions."""
    traits = [Traits(effect=item.effect) for item in items]
    delays = {}
    for at, earlier in enumerate(before):
        for one in earlier:
            first, second = items[one].effect, items[at].effect
            delay = ISSUE_CLOCKS
            if first.writes & (second.reads | second.writes):
                delay = result_clocks(first, arch)
            for requirement in find_requirements(traits[one], traits[at], arch):
                delay = max(delay, (requirement.states + 1) * ISSUE_CLOCKS)
            delays[one, at] = delay
    return delays


def _rank(
    items: Sequence[BlockItem],
    before: Sequence[set[int]],
    delays: dict[tuple[int, int], int],
    policy: Policy,
    arch: str,
) -> list[int]:
    """Lower goes first."""
    if policy is Policy.CRITICAL_PATH:
        return [-height for height in _find_heights(items, delays, arch)]
    ranks = [0] * len(items)
    if policy is Policy.LOADS_FIRST:
        feeds_load = [bool(item.effect.loaded) for item in items]
        for at in reversed(range(len(items))):
            if feeds_load[at]:
                for one in before[at]:
                    feeds_load[one] = True
        ranks = [0 if feeds else 1 for feeds in feeds_load]
    return ranks


def _find_heights(
    items: Sequence[BlockItem], delays: dict[tuple[int, int], int], arch: str
) -> list[int]:
    """Clocks from the issue of each instruction to the end of the block, at least."""
    heights = [issue_clocks(item.effect, arch) for item in items]
    for one, at in sorted(delays, reverse=True):
        heights[one] = max(heights[one], delays[one, at] + heights[at])
    return heights
