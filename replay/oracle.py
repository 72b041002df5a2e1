"""The oracle in a worker: what K0 does to a restored bundle, and whether candidates do the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from asmevo.capture.bundle import Bundle, Moment
from asmevo.capture.manifest import Region
from asmevo.errors import ReplayError
from asmevo.replay.comparison import Comparison
from asmevo.replay.envelope import Envelope
from asmevo.replay.findings import Finding, find_new_errors
from asmevo.replay.hip_runtime import HipFailure, Kernel
from asmevo.replay.job import CandidateOrder, Job
from asmevo.replay.launch_plan import LaunchSetting, plan_candidate, plan_k0
from asmevo.replay.launcher import Launcher, combine_measurements
from asmevo.replay.numeric import FLOATS
from asmevo.replay.records import Measurement, ObjectResult
from asmevo.replay.restore import MemoryImage, RestoredMemory
from asmevo.replay.restore_chunks import Chunks, read_chunks
from asmevo.replay.rules import BoundedRule, EitherRule, ElementRule
from asmevo.replay.timing import Timer
from asmevo.verdict import Status, Verdict

__all__ = ["Oracle"]

_REPORT_LINES = 8
_K0 = "K0"
_PASSED = Verdict(status=Status.PASSED)


class Oracle:
    """Judges candidates by what K0 does. Everything is launched on restored memory."""

    def __init__(
        self,
        bundle: Bundle,
        job: Job,
        memory: RestoredMemory,
        launcher: Launcher,
        timer: Timer,
    ) -> None:
        """Nothing is launched yet."""
        self._timer = timer
        self._bundle, self._job = bundle, job
        self._memory, self._launcher = memory, launcher
        self._facts = {facts.index: facts for facts in job.facts}
        sizes = {region.index: region.size_bytes for region in memory.regions}
        self._envelope = Envelope(self._facts, sizes)
        self._image: MemoryImage | None = None
        self._k0_findings: tuple[Finding, ...] = ()
        self._order_dependence = ""

    def run_k0(self) -> ObjectResult:
        """Compare K0 with the golden output and with itself; learn what it does not repeat."""
        data = self._bundle.code_object()
        result = self._time(self._run(_K0, data, self._judge_k0), data)
        self._k0_findings = result.findings
        return replace(
            result, order_dependence=self._order_dependence, envelope=self._envelope.facts
        )

    def run_candidate(self, order: CandidateOrder) -> ObjectResult:
        """Compare every launch of a candidate with K0."""
        data = Path(order.path).read_bytes()
        if hashlib.sha256(data).hexdigest() != order.sha256:
            raise ReplayError(f"{order.path} changed while it was judged")
        result = self._run(order.name, data, lambda run: self._judge_candidate(run, order))
        if not result.verdict.has_passed:
            return result
        verdict = _judge_findings(result.findings, self._k0_findings)
        return self._time(replace(result, verdict=verdict), data)

    def _time(self, result: ObjectResult, data: bytes) -> ObjectResult:
        """On a GPU: what passed, against K0 by turns; K0 against itself shows what is noise."""
        options = self._job.options
        is_timed = options.timing_rounds > 0 and not self._job.is_emulated
        if not is_timed or not result.verdict.has_passed:
            return result
        name = self._bundle.manifest.dispatch.kernel
        try:
            k0, candidate = Kernel(self._bundle.code_object(), name), Kernel(data, name)
            times = self._timer.time_pair(k0, candidate)
            for kernel in (k0, candidate):
                kernel.close()
        except HipFailure as failure:
            verdict = Verdict(status=Status.RUNTIME_FAILURE, reasons=(f"timing: {failure}",))
            return replace(result, verdict=verdict)
        measurement = Measurement(
            measured_ms=times.candidate_ms, k0_ms=times.k0_ms, caches=options.caches.value
        )
        return replace(result, measurement=measurement)

    def _run(self, name: str, data: bytes, judge: Callable[[_Run], Verdict]) -> ObjectResult:
        run = _Run(self._memory, self._launcher)
        try:
            run.kernel = Kernel(data, self._bundle.manifest.dispatch.kernel)
            self._memory.find_globals(run.kernel)
            verdict = judge(run)
            run.kernel.close()
        except HipFailure as failure:
            reasons = (str(failure), *self._launcher.report.failure_lines(_REPORT_LINES))
            verdict = Verdict(status=Status.RUNTIME_FAILURE, reasons=reasons)
            run.note_findings()
        return ObjectResult(
            name=name,
            sha256=hashlib.sha256(data).hexdigest(),
            verdict=verdict,
            comparisons=tuple(run.comparisons),
            measurement=combine_measurements(run.measurements),
            findings=tuple(run.findings.values()),
        )

    def _plan(self, plan: Callable[..., tuple[LaunchSetting, ...]]) -> tuple[LaunchSetting, ...]:
        return plan(
            self._job.options,
            block=self._bundle.manifest.dispatch.block,
            repeats=self._job.repeats,
            is_emulated=self._launcher.report.is_available,
        )

    def _judge_k0(self, run: _Run) -> Verdict:
        """The first launch is what counts; the last one must agree with what the others taught."""
        first, *others, last = self._plan(plan_k0)
        run.launch(first)
        self._image = self._memory.snapshot()
        verdict = self._compare_with_golden(run)
        for setting in others:
            if verdict.has_passed:
                run.launch(setting)
                verdict = self._learn(setting)
        if not verdict.has_passed:
            return verdict
        if (excess := self._envelope.find_excess()) is not None:
            return Verdict(status=Status.UNSUPPORTED, reasons=(excess,))
        run.launch(last)
        return self._compare_with_k0(run, last)

    def _compare_with_golden(self, run: _Run) -> Verdict:
        """Float atomics may have had another order when the golden output was made."""
        regions = [region for region in self._memory.regions if region.after is not None]
        if not regions:
            return _PASSED
        assert self._image is not None
        for region in regions:
            if self._facts[region.index].has_float_atomics:
                self._learn_region(region, self._golden(region))
        comparison = self._memory.compare(
            self._golden,
            self._facts,
            against="golden output",
            rule=self._envelope.rule,
            guards=self._job.options.guards,
        )
        run.comparisons.append(comparison)
        return _judge(comparison)

    def _golden(self, region: Region) -> Chunks | None:
        if region.after is None:
            return None
        return read_chunks(self._bundle.region_chunks(region, Moment.AFTER))

    def _learn(self, setting: LaunchSetting) -> Verdict:
        varies = False
        for region in self._memory.regions:
            varies |= self._learn_region(region, self._memory.chunks(region))
        if varies and setting.order and not self._order_dependence:
            self._order_dependence = setting.order
        guard = self._memory.find_guard_difference() if self._job.options.guards else None
        if guard is None:
            return _PASSED
        return Verdict(status=Status.DIVERGENT, reasons=(guard.describe(),))

    def _learn_region(self, region: Region, contents: Chunks | None) -> bool:
        """Take in what another launch left; true when it is not what the first one left."""
        assert self._image is not None
        if contents is None:
            return False
        varies = False
        with self._memory.pristine.mapped():
            pairs = zip(self._image.chunks(region), contents, strict=True)
            for (offset, reference), (_, content) in pairs:
                varies |= self._envelope.learn(region.index, offset, reference, content)
        return varies

    def _judge_candidate(self, run: _Run, order: CandidateOrder) -> Verdict:
        for setting in self._plan(plan_candidate):
            run.launch(setting)
            verdict = self._compare_with_k0(run, setting, in_bounds=order.changes_arithmetic)
            if not verdict.has_passed:
                return verdict
        return _PASSED

    def _compare_with_k0(
        self, run: _Run, setting: LaunchSetting, *, in_bounds: bool = False
    ) -> Verdict:
        assert self._image is not None
        comparison = self._memory.compare(
            self._image.chunks,
            self._facts,
            against=_K0,
            launch=setting.label,
            rule=self._bounded_rule if in_bounds else self._envelope.rule,
            guards=self._job.options.guards,
        )
        run.comparisons.append(comparison)
        return _judge(comparison)

    def _bounded_rule(self, region: int) -> ElementRule | None:
        """For a candidate that may round differently; K0's own variation is allowed as well."""
        learned, tolerance = self._envelope.rule(region), self._job.options.tolerance
        element_type = self._facts[region].element_type
        if tolerance is None or element_type not in FLOATS:
            return learned
        bounded = BoundedRule(tolerance, element_type)
        return bounded if learned is None else EitherRule(bounded, learned)


class _Run:
    """The launches of one code object, and what is kept of them."""

    kernel: Kernel

    def __init__(self, memory: RestoredMemory, launcher: Launcher) -> None:
        self._memory, self._launcher = memory, launcher
        self.comparisons: list[Comparison] = []
        self.measurements: list[Measurement] = []
        self.findings: dict[tuple[object, ...], Finding] = {}

    def launch(self, setting: LaunchSetting) -> None:
        """Launch on restored memory."""
        self._memory.restore(second_state=setting.second_state)
        self.measurements.append(self._launcher.launch(self.kernel, setting))
        self.note_findings()

    def note_findings(self) -> None:
        """Keep what the checks found in the last launch and not in an earlier one."""
        for finding in self._launcher.findings():
            place = (finding.rule, finding.offset, finding.other_offset)
            self.findings.setdefault(place, finding)


def _judge(comparison: Comparison) -> Verdict:
    if comparison.has_passed:
        return _PASSED
    when = f" {comparison.launch}" if comparison.launch else ""
    against = f"against {comparison.against}{when}"
    reasons = tuple(f"{against}: {line}" for line in comparison.describe())
    return Verdict(status=Status.DIVERGENT, reasons=reasons)


def _judge_findings(candidate: tuple[Finding, ...], k0: tuple[Finding, ...]) -> Verdict:
    """A right result does not excuse what works by luck, unless K0 lives by the same luck."""
    new = find_new_errors(candidate, k0)
    if not new:
        return _PASSED
    return Verdict(status=Status.CHECK_FAILED, reasons=tuple(item.describe() for item in new))
