"""One replay in a process of its own: `python -m asmevo.replay.worker RESULTS_FD LIFE_FD`.

Reads a job and then candidates from stdin (see `job`) and writes messages to the descriptor, so
that nothing that a library prints can mix with them. The process ends after a failed launch: the
device's state is lost with it. It also ends, in whatever call it is, when the other end of LIFE_FD
is closed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asmevo.capture.bundle import Bundle, Moment, open_bundle
from asmevo.capture.manifest import Region
from asmevo.errors import AsmevoError, ReplayError
from asmevo.replay.address_hold import AddressTakenError, map_at
from asmevo.replay.findings import Finding, find_new_errors
from asmevo.replay.job import EXIT_ADDRESS_TAKEN, CandidateOrder, Event, Job
from asmevo.replay.layout import PAGE_BYTES, Mapping, Memory, plan_mappings
from asmevo.replay.records import Comparison, Measurement, ObjectResult
from asmevo.verdict import Status, Verdict

if TYPE_CHECKING:
    from asmevo.replay.restore import Chunks, MemoryImage

__all__ = ["main"]

_REPORT_LINES = 8
_K0 = "K0"
_WAVE_ITEMS = 64

Emit = Callable[..., None]


class _Replay:
    """A restored bundle and what K0 does to it."""

    def __init__(self, bundle: Bundle, job: Job, emit: Emit) -> None:
        """Restore the bundle at its addresses."""
        held = _hold_addresses(bundle)
        # Only now: these load libraries, and the HIP runtime takes addresses of its own.
        from asmevo.replay import hip_runtime, restore

        self._hip, self._read_chunks = hip_runtime, restore.read_chunks
        self._bundle, self._job, self._emit = bundle, job, emit
        self._kernarg = bundle.kernarg()
        self._runtime = hip_runtime.HipRuntime()
        self._report = hip_runtime.EmulatorReport()
        self._report.collect_findings(job.checks)
        self._findings: dict[tuple[object, ...], Finding] = {}
        self._k0_findings: tuple[Finding, ...] = ()
        self._memory = restore.RestoredMemory(bundle, self._runtime, held)
        self._facts = {facts.index: facts for facts in job.facts}
        self._k0_image: MemoryImage | None = None
        self._order_dependence = "not tried"

    def run_k0(self) -> ObjectResult:
        """Compare K0 with the golden output, then each repetition with its first run."""
        data = self._bundle.code_object()

        def check(launch: int) -> Comparison | None:
            if launch > 0:
                return self._compare_with_k0()
            self._k0_image = self._memory.snapshot()
            if all(region.after is None for region in self._memory.regions):
                return None
            return self._memory.compare(self._golden, self._facts, against="golden output")

        return self._run(_K0, data, launches=max(2, self._job.repeats), check=check, is_k0=True)

    def run_candidate(self, order: CandidateOrder) -> ObjectResult:
        """Compare every launch of a candidate with K0."""
        data = Path(order.path).read_bytes()
        if hashlib.sha256(data).hexdigest() != order.sha256:
            raise ReplayError(f"{order.path} changed while it was judged")
        return self._run(
            order.name, data, launches=self._job.repeats, check=lambda _: self._compare_with_k0()
        )

    def _golden(self, region: Region) -> Chunks | None:
        if region.after is None:
            return None
        return self._read_chunks(self._bundle.region_chunks(region, Moment.AFTER))

    def _compare_with_k0(self) -> Comparison:
        assert self._k0_image is not None
        return self._memory.compare(self._k0_image.chunks, self._facts, against="K0")

    def _run(
        self,
        name: str,
        data: bytes,
        *,
        launches: int,
        check: Callable[[int], Comparison | None],
        is_k0: bool = False,
    ) -> ObjectResult:
        """Launch on restored memory until a check finds something, at most `launches` times."""
        comparisons: list[Comparison] = []
        measurements: list[Measurement] = []
        verdict = Verdict(status=Status.PASSED)
        self._findings.clear()
        try:
            kernel = self._hip.Kernel(data, self._bundle.manifest.dispatch.kernel)
            for launch in range(launches):
                self._memory.restore()
                measurements.append(self._launch(kernel))
                if (comparison := check(launch)) is not None:
                    comparisons.append(comparison)
                    if not comparison.is_identical:
                        verdict = _diverged(comparison)
                        break
            if verdict.has_passed and (is_k0 or not self._order_dependence):
                verdict = self._check_orders(kernel, is_k0=is_k0)
            kernel.close()
        except self._hip.HipFailure as failure:
            reasons = (str(failure), *self._report.failure_lines(_REPORT_LINES))
            verdict = Verdict(status=Status.LAUNCH_FAILED, reasons=reasons)
            self._note_findings()
        findings = tuple(self._findings.values())
        if is_k0:
            self._k0_findings = findings
        elif verdict.has_passed:
            verdict = _judge_findings(findings, self._k0_findings)
        return ObjectResult(
            name=name,
            sha256=hashlib.sha256(data).hexdigest(),
            verdict=verdict,
            comparisons=tuple(comparisons),
            measurement=_combine(measurements),
            findings=findings,
            order_dependence=self._order_dependence if is_k0 and verdict.has_passed else "",
        )

    def _note_findings(self) -> None:
        """Keep what the checks found in the last launch and not in an earlier one."""
        for finding in self._report.findings():
            place = (finding.rule, finding.offset, finding.other_offset)
            self._findings.setdefault(place, finding)

    def _orders(self) -> Iterator[tuple[str, str, int]]:
        """Other orders of waves that a launch must not depend on: how to name and to ask for each.

        With the turns reversed a lost barrier shows in one order or the other.
        """
        if self._report.is_available:
            if math.prod(self._bundle.manifest.dispatch.block) > _WAVE_ITEMS:
                yield "with the waves' turns reversed", "reverse_waves", 1
            for seed in self._job.seeds:
                yield f"with waves and latencies permuted by seed {seed}", "seed", seed

    def _check_orders(self, kernel: Any, *, is_k0: bool) -> Verdict:
        """Once more in each other order.

        K0 may depend on the order (float atomics); then its candidates may as well.
        """
        for when, option, value in self._orders():
            self._memory.restore()
            with self._report.option(option, value):
                self._launch(kernel)
            comparison = self._compare_with_k0()
            if not comparison.is_identical:
                if not is_k0:
                    return _diverged(comparison, f" {when}")
                self._order_dependence = when
                return Verdict(status=Status.PASSED)
        if is_k0:
            self._order_dependence = ""
        return Verdict(status=Status.PASSED)

    def _launch(self, kernel: Any) -> Measurement:
        dispatch = self._bundle.manifest.dispatch
        timer = None if self._report.is_available else self._hip.EventTimer()
        measured: tuple[float, ...] = ()
        self._emit(Event.LAUNCHING)
        if timer is not None:
            timer.start()
        kernel.launch(
            grid=dispatch.grid,
            block=dispatch.block,
            dynamic_lds_bytes=dispatch.dynamic_lds_bytes,
            kernarg=self._kernarg,
        )
        if timer is not None:
            measured = (timer.stop_ms(),)
        self._runtime.synchronize()
        self._emit(Event.LAUNCHED)
        self._note_findings()
        report = self._report.read()
        if report.get("mfma") == "fast":
            raise ReplayError(
                "the emulated device ran matrix operations in its approximate mode",
                hint="a replay judges by exact results: unset ASMEVO_EMULATOR_MFMA",
            )
        return Measurement(
            modelled_cycles=report.get("modelled_cycles"),
            wave_instructions=report.get("wave_instructions"),
            measured_ms=measured,
        )


def _hold_addresses(bundle: Bundle) -> tuple[Mapping, ...]:
    held = plan_mappings(bundle.manifest.regions, device_granularity=PAGE_BYTES)
    for mapping in held:
        accessible = mapping.memory is not Memory.DEVICE
        map_at(mapping.address, mapping.size_bytes, accessible=accessible)
    return held


def _diverged(comparison: Comparison, when: str = "") -> Verdict:
    against = f"against {comparison.against}{when}"
    reasons = tuple(f"{against}: {line}" for line in comparison.describe())
    return Verdict(status=Status.DIVERGENT, reasons=reasons)


def _judge_findings(candidate: tuple[Finding, ...], k0: tuple[Finding, ...]) -> Verdict:
    """A right result does not excuse what works by luck, unless K0 lives by the same luck."""
    new = find_new_errors(candidate, k0)
    if not new:
        return Verdict(status=Status.PASSED)
    return Verdict(status=Status.CHECK_FAILED, reasons=tuple(item.describe() for item in new))


def _combine(measurements: list[Measurement]) -> Measurement | None:
    if not measurements:
        return None
    first = measurements[0]
    return Measurement(
        modelled_cycles=first.modelled_cycles,
        wave_instructions=first.wave_instructions,
        measured_ms=tuple(time for item in measurements for time in item.measured_ms),
    )


def _open_results(descriptor: int) -> Emit:
    os.set_inheritable(descriptor, False)
    stream = os.fdopen(descriptor, "w", encoding="utf-8")

    def emit(event: Event, **fields: object) -> None:
        stream.write(json.dumps({"event": event, **fields}) + "\n")
        stream.flush()

    return emit


def _end_with_engine(descriptor: int) -> None:
    """Let the kernel end this process when the engine's has ended.

    PR_SET_PDEATHSIG would not do: it watches the thread that started the worker. SIGIO's default
    action is to end the process.
    """
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([descriptor], [], [], 0)[0]:  # it ended before
        sys.exit(1)


def _serve(emit: Emit) -> None:
    """Run K0, then candidates until stdin ends or a launch fails."""
    job = Job.from_line(sys.stdin.readline())
    with open_bundle(Path(job.bundle)) as bundle:
        replay = _Replay(bundle, job, emit)
        emit(Event.RESTORED)
        result = replay.run_k0()
        emit(Event.RESULT, result=result.to_json())
        while result.verdict.status is not Status.LAUNCH_FAILED:
            line = sys.stdin.readline()
            if not line:
                return
            result = replay.run_candidate(CandidateOrder.from_line(line))
            emit(Event.RESULT, result=result.to_json())


def main() -> int:
    """Serve one engine; the exit code."""
    results, life = (int(argument) for argument in sys.argv[1:3])
    _end_with_engine(life)
    emit = _open_results(results)
    try:
        _serve(emit)
    except AddressTakenError as error:
        emit(Event.ADDRESS_TAKEN, message=str(error))
        return EXIT_ADDRESS_TAKEN
    except AsmevoError as error:
        emit(Event.ERROR, message=str(error), kind=type(error).__name__)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
