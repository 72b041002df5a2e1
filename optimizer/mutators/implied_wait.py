"""W1: delete a wait that is already implied on every incoming path."""

from __future__ import annotations

from collections.abc import Iterator

from asmevo.codeobject.analysis.wait_state import format_wait, parse_wait
from asmevo.optimizer.kernel_view import KernelView
from asmevo.optimizer.proposal import Delete, Proposal, Replace

__all__ = ["ImpliedWait"]


class ImpliedWait:
    """Drops counters that cannot be above what the wait asks for; without any left, the wait."""

    id = "W1"
    title = "delete implied waits"
    is_combinable = True
    is_monotone = True

    def propose(self, view: KernelView) -> Iterator[Proposal]:
        """One proposal for each wait that waits for something that is certainly over."""
        program = view.program
        for block in program.order:
            for position, state in view.waits.walk(block):
                instruction = program.instructions[position]
                if instruction.mnemonic != "s_waitcnt" or not view.is_editable(position):
                    continue
                counts = parse_wait(instruction)
                needed = {
                    counter: count
                    for counter, count in counts.items()
                    if state.most_outstanding[counter] > count
                }
                if needed == counts or not (needed or view.can_vanish(position)):
                    continue
                implied = ", ".join(f"{one.value}({counts[one]})" for one in counts.keys() - needed)
                yield Proposal(
                    mutator=self.id,
                    sites=(instruction.id,),
                    edits=(
                        Replace(id=instruction.id, texts=(format_wait(needed),))
                        if needed
                        else Delete(ids=(instruction.id,)),
                    ),
                    hypothesis=f"{implied or 'the wait'} holds on every path: one issue slot less",
                )
