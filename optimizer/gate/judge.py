"""The gate: assemble, static, equivalent on every bundle, faster. The first failure ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from asmevo.codeobject.analysis.control_flow import AnalysisRefusal
from asmevo.codeobject.code_object import CodeObject, content_hash
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.resources import ResourceRefusal
from asmevo.errors import AssemblerError, CodeObjectError, GateError, UsageError
from asmevo.files import write_whole
from asmevo.optimizer.gate.cost import Cost, compare_costs, read_cost
from asmevo.optimizer.gate.static import find_interface_changes, find_static_faults
from asmevo.optimizer.kernel_view import KernelView, view_kernel
from asmevo.optimizer.proposal import Proposal, apply_edits
from asmevo.replay.records import ObjectResult
from asmevo.verdict import Status, Verdict

__all__ = ["Gate", "Judgement", "Replayer"]


class Replayer(Protocol):
    """One bundle on one device; `asmevo.replay.engine.ReplaySession` is the real one."""

    @property
    def k0(self) -> ObjectResult:
        """K0 against the golden output."""
        ...

    def run(self, path: Path) -> ObjectResult:
        """A candidate against K0."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The outcome for one candidate, with what was learnt on the way."""

    verdict: Verdict
    data: bytes = b""
    """The assembled object; empty when it did not get that far."""
    costs: tuple[Cost, ...] = ()
    """Cost for each bundle; empty unless the candidate is equivalent on all."""
    speedup: float | None = None
    """Over the best so far."""

    @property
    def sha256(self) -> str | None:
        """Content hash of the object."""
        return content_hash(self.data) if self.data else None


def _reject(status: Status, *reasons: str, data: bytes = b"") -> Judgement:
    return Judgement(verdict=Verdict(status=status, reasons=reasons), data=data)


class Gate:
    """Judges candidates for one kernel against K0 and the best so far.

    Args:
        k0: the original code object.
        replayers: one for each bundle.
        folder: where candidates are written for the replay to read.
    """

    def __init__(self, *, k0: CodeObject, replayers: Sequence[Replayer], folder: Path) -> None:
        """Nothing runs yet."""
        self._k0 = k0
        self._replayers = tuple(replayers)
        self._folder = folder
        self._count = 0

    def measure_k0(self) -> tuple[Cost, ...]:
        """Cost of K0 for each bundle.

        Raises:
            GateError: K0 does not reproduce the golden output of a bundle.
        """
        costs = []
        for number, replayer in enumerate(self._replayers):
            result = replayer.k0
            if not result.verdict.has_passed:
                reason = "; ".join(result.verdict.reasons[:1]) or result.verdict.status
                raise GateError(f"K0 itself fails on bundle {number}: {reason}")
            costs.append(read_cost(result.measurement))
        return tuple(costs)

    def judge(self, parent: KernelView, proposal: Proposal, best: Sequence[Cost]) -> Judgement:
        """Take the proposal through all stages."""
        try:
            listing = apply_edits(parent.listing, proposal.edits)
        except UsageError as error:
            return _reject(Status.EDIT_INVALID, str(error))
        faults = _find_faults(parent, listing)
        data = _rebuild(listing)
        if isinstance(data, Judgement):
            return data
        rebuilt = CodeObject.read(data)
        if rebuilt.text.data == self._k0.text.data:
            return _reject(Status.EDIT_INVALID, "the code does not differ from K0's", data=data)
        faults += list(find_interface_changes(self._k0, rebuilt))
        if faults:
            return _reject(Status.STATIC_REJECTED, *faults[:8], data=data)
        return self._judge_by_replay(data, best)

    def _judge_by_replay(self, data: bytes, best: Sequence[Cost]) -> Judgement:
        self._count += 1
        path = self._folder / f"candidate-{self._count}.hsaco"
        write_whole(path, data)
        try:
            results = []
            for replayer in self._replayers:
                result = replayer.run(path)
                if not result.verdict.has_passed:
                    return Judgement(verdict=result.verdict, data=data)
                results.append(result)
        finally:
            path.unlink(missing_ok=True)
        costs = tuple(read_cost(result.measurement) for result in results)
        speedup, needed = compare_costs(best, costs)
        verdict = Verdict(status=Status.PASSED)
        if speedup < needed:
            reason = f"speedup {speedup:.5f} in {costs[0].unit} is below {needed:.5f}"
            verdict = Verdict(status=Status.NOT_FASTER, reasons=(reason,))
        return Judgement(verdict=verdict, data=data, costs=costs, speedup=speedup)


def _rebuild(listing: Listing) -> bytes | Judgement:
    try:
        return rebuild_listing(listing)
    except UsageError as error:
        # In place: no room, or other resources.
        return _reject(Status.EDIT_INVALID, str(error))
    except ResourceRefusal as refusal:
        return _reject(Status.STATIC_REJECTED, str(refusal))
    except (AssemblerError, CodeObjectError) as error:
        return _reject(Status.ASSEMBLER_REJECTED, str(error))


def _find_faults(parent: KernelView, listing: Listing) -> list[str]:
    try:
        return list(find_static_faults(parent, view_kernel(listing, parent.kernel)))
    except AnalysisRefusal as refusal:
        return [f"not provable: {refusal}"]
