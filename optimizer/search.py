"""Greedy search: all proposals of a mutator at once, then halves; what is faster is committed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from asmevo.codeobject.analysis.control_flow import AnalysisRefusal
from asmevo.codeobject.open_listing import open_listing
from asmevo.errors import UsageError
from asmevo.optimizer.gate.cost import Cost, CostUnit, compare_costs
from asmevo.optimizer.gate.judge import Gate, Judgement
from asmevo.optimizer.kernel_view import KernelView, view_kernel
from asmevo.optimizer.mutators import MUTATORS, Mutator
from asmevo.optimizer.proposal import Proposal
from asmevo.optimizer.run_folder import Attempt, Node, RunFolder
from asmevo.verdict import Status

__all__ = ["Budget", "Progress", "Search", "combine"]

Progress = Callable[[int, str, float], None]
"""Called after each attempt with the number of attempts, what was tried and the speedup over K0."""

_FRUITLESS_LIMIT = 24
"""Single proposals of one mutator that may fail in a row before the search goes on to the next."""


class _BudgetSpentError(Exception):
    """No candidate more may be judged."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """How much may be tried in this process."""

    candidates: int | None = None
    seconds: float | None = None
    started: float = 0.0
    spent: int = 0

    def take(self) -> None:
        """Count one candidate, or end the search."""
        is_late = self.seconds is not None and time.monotonic() - self.started >= self.seconds
        if is_late or (self.candidates is not None and self.spent >= self.candidates):
            raise _BudgetSpentError
        self.spent += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gain:
    """Proposals that together do the same as the parent in less."""

    proposals: tuple[Proposal, ...]
    judgement: Judgement

    @property
    def speedup(self) -> float:
        """Over the parent."""
        return self.judgement.speedup or 0.0


def combine(proposals: Sequence[Proposal]) -> Proposal:
    """Proposals of one mutator as one."""
    if len(proposals) == 1:
        return proposals[0]
    return Proposal(
        mutator=proposals[0].mutator,
        sites=tuple(site for proposal in proposals for site in proposal.sites),
        edits=tuple(edit for proposal in proposals for edit in proposal.edits),
        hypothesis=f"{len(proposals)} sites at once, first: {proposals[0].hypothesis}",
    )


class Search:
    """One kernel's search. The lineage is a line: each commit improves on the best before it."""

    def __init__(
        self,
        *,
        folder: RunFolder,
        gate: Gate,
        budget: Budget,
        mutators: Sequence[Mutator] = MUTATORS,
        progress: Progress | None = None,
    ) -> None:
        """Nothing runs yet."""
        self._folder = folder
        self._gate = gate
        self._budget = budget
        self._mutators = mutators
        self._progress = progress
        self.refusals: dict[str, str] = {}
        """Why a mutator had nothing to say, by its id."""

    def run(self, k0: bytes) -> str:
        """Search until nothing improves or the budget is spent; says which."""
        self._budget.started = time.monotonic()
        costs = self._gate.measure_k0()
        if not self._folder.nodes:
            root = Node(
                sha256=self._folder.identity.k0_sha256,
                parent=None,
                attempt=None,
                mutator=None,
                costs=costs,
            )
            self._folder.commit(root, k0, open_listing(k0).to_assembly())
        else:
            self._refuse_other_costs(costs)
            data = self._folder.object_of(self._folder.best)
            self._folder.write_best(data, open_listing(data).to_assembly())
        try:
            while any([self._exhaust(mutator) for mutator in self._mutators]):
                pass
        except _BudgetSpentError:
            return "budget spent"
        return "no proposal improves"

    def _refuse_other_costs(self, costs: tuple[Cost, ...]) -> None:
        """Modelled figures of two timing models must not be compared."""
        is_modelled = costs[0].unit is CostUnit.MODELLED_CYCLES
        if is_modelled and costs != self._folder.nodes[0].costs:
            raise UsageError(
                f"{self._folder.path}: K0's modelled cycles changed since the run began",
                hint="the timing model changed; name another -o RUNDIR",
            )

    def _exhaust(self, mutator: Mutator) -> bool:
        """Commit what the mutator finds, until it finds nothing more."""
        has_committed = False
        while self._improve(mutator):
            has_committed = True
        return has_committed

    def _improve(self, mutator: Mutator) -> bool:
        """Commit one improvement by the mutator, if it has any."""
        data = self._folder.object_of(self._folder.best)
        try:
            view = view_kernel(open_listing(data), self._folder.identity.kernel)
            proposals = list(mutator.propose(view))
        except (AnalysisRefusal, UsageError) as refusal:
            # Of the analyses, or of a listing that cannot be edited.
            self.refusals[mutator.id] = str(refusal)
            return False
        if not proposals:
            return False
        if not mutator.is_combinable:
            return self._improve_singly(view, proposals)
        gains = self._gather(view, proposals, is_monotone=mutator.is_monotone)
        if len(gains) > 1:
            together = [proposal for gain in gains for proposal in gain.proposals]
            gains.append(_Gain(proposals=tuple(together), judgement=self._try(view, together)))
        return self._commit_best(gains)

    def _gather(
        self, view: KernelView, proposals: Sequence[Proposal], *, is_monotone: bool
    ) -> list[_Gain]:
        """Groups of proposals that gain anything, found by halving those that do not."""
        judgement = self._try(view, proposals)
        if judgement.speedup is not None and judgement.speedup > 1:
            return [_Gain(proposals=tuple(proposals), judgement=judgement)]
        is_slow = judgement.verdict.status is Status.NOT_FASTER
        if len(proposals) == 1 or (is_slow and is_monotone):
            return []
        middle = len(proposals) // 2
        return self._gather(view, proposals[:middle], is_monotone=is_monotone) + self._gather(
            view, proposals[middle:], is_monotone=is_monotone
        )

    def _improve_singly(self, view: KernelView, proposals: Sequence[Proposal]) -> bool:
        """Commit the first proposal that passes."""
        for proposal in proposals[:_FRUITLESS_LIMIT]:
            judgement = self._try(view, [proposal])
            if judgement.verdict.has_passed:
                return self._commit_best([_Gain(proposals=(proposal,), judgement=judgement)])
        return False

    def _try(self, view: KernelView, proposals: Sequence[Proposal]) -> Judgement:
        """Judge proposals as one candidate and log it, unless the log knows it already."""
        proposal = combine(proposals)
        best = self._folder.best
        attempt_id = _attempt_id(best.sha256, proposal)
        known = self._folder.attempts.get(attempt_id)
        # One that passed but was not committed before a kill is run again, for its object.
        if known is not None and not known.verdict.has_passed:
            return Judgement(verdict=known.verdict, speedup=known.speedup)
        self._budget.take()
        started = time.monotonic()
        judgement = self._gate.judge(view, proposal, best.costs)
        self._folder.append(
            Attempt(
                id=attempt_id,
                parent=best.sha256,
                mutator=proposal.mutator,
                sites=proposal.sites,
                hypothesis=proposal.hypothesis,
                verdict=judgement.verdict,
                costs=tuple(cost.value for cost in judgement.costs),
                cost_unit=best.costs[0].unit.value,
                speedup=judgement.speedup,
                sha256=judgement.sha256,
                seconds=round(time.monotonic() - started, 4),
            )
        )
        if self._progress is not None:
            gain, _ = compare_costs(self._folder.nodes[0].costs, best.costs)
            self._progress(len(self._folder.attempts), proposal.mutator, gain)
        return judgement

    def _commit_best(self, gains: Sequence[_Gain]) -> bool:
        passed = [gain for gain in gains if gain.judgement.verdict.has_passed]
        if not passed:
            return False
        chosen = max(passed, key=lambda gain: gain.speedup)
        proposal, judgement = combine(chosen.proposals), chosen.judgement
        parent = self._folder.best
        node = Node(
            sha256=judgement.sha256 or "",
            parent=parent.sha256,
            attempt=_attempt_id(parent.sha256, proposal),
            mutator=proposal.mutator,
            costs=judgement.costs,
        )
        self._folder.commit(node, judgement.data, open_listing(judgement.data).to_assembly())
        return True


def _attempt_id(parent: str, proposal: Proposal) -> str:
    text = f"{parent} {proposal.mutator} {proposal.edits!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
