"""W5: let an earlier wait of the block cover a later one."""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.codeobject.analysis.wait_state import Counter, format_wait, parse_wait, raises
from asmevo.optimizer.kernel_view import KernelView
from asmevo.optimizer.proposal import Delete, Proposal, Replace

__all__ = ["MergedWait"]


class MergedWait:
    """Waits earlier for what is waited for later, and saves the issue slot of the later wait.

    Always legal: the merged wait retires at least what the two did. Not always faster: the work
    between them no longer overlaps.
    """

    id = "W5"
    title = "merge waits"
    is_combinable = True
    is_monotone = False

    def propose(self, view: KernelView) -> Iterator[Proposal]:
        """One proposal for each wait that can cover the next one; the closest pairs first."""
        found = []
        used: set[int] = set()
        for block in view.program.order:
            bounds = view.program.blocks[block]
            earlier: int | None = None
            for position in range(bounds.start, bounds.end):
                is_wait = view.program.effects[position].base == "s_waitcnt"
                if not is_wait or not view.is_editable(position):
                    continue
                if earlier is not None and view.can_vanish(position):
                    counts = _merge(view, earlier, position)
                    if counts is not None:
                        found.append((position - earlier, earlier, position, counts))
                earlier = position
        for distance, earlier, position, counts in sorted(found, key=lambda one: one[:2]):
            if used & {earlier, position}:
                continue
            used |= {earlier, position}
            first = view.program.instructions[earlier].id
            second = view.program.instructions[position].id
            yield Proposal(
                mutator=self.id,
                sites=(first, second),
                edits=(Replace(id=first, texts=(format_wait(counts),)), Delete(ids=(second,))),
                hypothesis=f"{distance - 1} instructions apart: one issue slot less",
            )


def _merge(view: KernelView, earlier: int, later: int) -> dict[Counter, int] | None:
    """Counts of a wait in the earlier place that implies both; None when there is none."""
    first = parse_wait(view.program.instructions[earlier])
    second = parse_wait(view.program.instructions[later])
    merged = dict(first)
    between = view.program.effects[earlier + 1 : later]
    state = view.waits.before(later)
    for counter, count in second.items():
        issued = sum(raises(effect, counter) for effect in between)
        # What was issued in between is younger; without an order nothing but zero says anything.
        if issued and (state.out_of_order[counter] or count < issued):
            return None
        merged[counter] = min(merged.get(counter, count - issued), count - issued)
    return merged
