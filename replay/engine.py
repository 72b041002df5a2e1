"""The differential oracle: a candidate counts only where it does to memory what K0 does.

Everything runs in worker processes, which a candidate may hang or kill. A session keeps one worker
with the bundle restored and replaces it when it is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from asmevo.capture.bundle import open_bundle
from asmevo.errors import AsmevoError, BundleError, MissingToolError, ReplayError, UsageError
from asmevo.files import read_bounded
from asmevo.replay.candidate import CandidateCheck
from asmevo.replay.device import Device
from asmevo.replay.generalise import judge_on_variants, open_variants
from asmevo.replay.job import CandidateOrder, Event, Job
from asmevo.replay.layout import plan_hold
from asmevo.replay.options import OracleOptions
from asmevo.replay.process import WorkerProcess
from asmevo.replay.proof import describe_proof
from asmevo.replay.records import ObjectResult, ReplayResult, VariantOutcome
from asmevo.replay.region_types import TypeHints, describe_regions, find_store_facts
from asmevo.replay.restorable import (
    describe_restoration,
    find_old_image,
    refuse_unrestorable,
    require_memory,
)
from asmevo.verdict import Status, Verdict

__all__ = ["ReplaySession", "replay"]

_START_ATTEMPTS = 8
_TRANSFER_BASE_S = 60.0
_TRANSFER_BYTES_PER_S = 20e6
_CANDIDATE_LIMIT_BYTES = 1 << 30


class _WorkerLostError(Exception):
    """The worker hung or died; carries the verdict on what it was running."""

    def __init__(self, verdict: Verdict) -> None:
        """Keep the verdict."""
        super().__init__(verdict.reasons)
        self.verdict = verdict


class ReplaySession:
    """One bundle on one device, against which candidates are run one after the other.

    Args:
        bundle_path: the captured dispatch.
        device: where to run it.
        timeout_s: how long one launch may take.
        repeats: launches of each candidate, each on restored memory and compared.
        types: what the user says of the elements of regions.
        options: what of the oracle is on; everything by default.
    """

    def __init__(
        self,
        bundle_path: Path,
        *,
        device: Device,
        timeout_s: float = 60.0,
        repeats: int = 1,
        types: TypeHints | None = None,
        options: OracleOptions | None = None,
    ) -> None:
        """Read the bundle and K0; nothing runs yet.

        Raises:
            BundleError: The bundle is damaged.
            ReplayError: Its code object does not fit its dispatch, or it does not fit into memory.
            UsageError: The device is of another architecture, or a type hint does not fit.
        """
        if repeats < 1 or timeout_s <= 0:
            raise UsageError("repeats and timeout must be positive")
        with open_bundle(bundle_path) as bundle:
            manifest = bundle.manifest
            self._check = CandidateCheck(bundle)
            k0, kernel = self._check.k0, self._check.kernel
            stores = find_store_facts(k0, kernel)
            refuse_unrestorable(bundle, k0, kernel, stores)
            facts = describe_regions(bundle, k0, kernel, stores, types or TypeHints())
            old_image = find_old_image(bundle, k0)
            require_memory(bundle, is_emulated=device.chip is not None)
            self.notes = (*describe_proof(device), *describe_restoration(bundle))
        arch = manifest.dispatch.arch.partition(":")[0]
        if device.chip is not None and device.chip.arch != arch:
            raise UsageError(
                f"{bundle_path} is for {arch}, the device {device} is a {device.chip.arch}",
                hint=f"use the device emulated:{arch}",
            )
        self.kernel = manifest.dispatch.kernel
        self.device = device
        self._job = Job(
            bundle=str(bundle_path.absolute()),
            repeats=repeats,
            options=options or OracleOptions(),
            facts=facts,
            is_emulated=device.chip is not None,
            argument_offsets=tuple(one.offset for one in kernel.arguments if not one.is_hidden),
            old_image=None if old_image is None else (old_image.start, old_image.stop),
        )
        # Out of a candidate's reach: the worker's own memory, which holds what it is compared with.
        fenced = replace(device, discrete=True) if device.chip is not None else device
        self._environment = fenced.environment()
        self._timeout_s = timeout_s
        self._held = plan_hold(manifest.regions)
        size = sum(region.size_bytes for region in manifest.regions)
        self._transfer_s = _TRANSFER_BASE_S + size / _TRANSFER_BYTES_PER_S
        self._worker: WorkerProcess | None = None
        self._k0: ObjectResult | None = None

    def __enter__(self) -> Self:
        """Return the session itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the worker."""
        self.close()

    def close(self) -> None:
        """End the worker; the session can be used again and then starts another."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    @property
    def k0(self) -> ObjectResult:
        """K0 against the golden output and against itself; the first use runs it."""
        if self._k0 is None:
            self._k0 = self._start()
        return self._k0

    def run(self, path: Path, *, changes_arithmetic: bool = False) -> ObjectResult:
        """Compare a candidate with K0. A bad candidate is a verdict, never an exception.

        Args:
            path: its code object.
            changes_arithmetic: its floats may differ within the tolerance of the options.

        Raises:
            UsageError: The file cannot be read.
            BundleError: The bundle's contents are damaged.
            ReplayError: The replay itself could not be run.
        """
        data = read_bounded(path, _CANDIDATE_LIMIT_BYTES)
        if (fault := self._check.find_fault(data)) is not None:
            return _reject(path, data, Status.STATIC_REJECTED, fault)
        if not self.k0.verdict.has_passed:
            reason = f"K0 itself is {self.k0.verdict.status} in replay: nothing to compare with"
            return _reject(path, data, Status.UNSUPPORTED, reason)
        if self._worker is None:
            self._restart()
        assert self._worker is not None
        order = CandidateOrder(
            path=str(path.absolute()),
            name=str(path),
            sha256=sha256(data).hexdigest(),
            changes_arithmetic=changes_arithmetic,
        )
        self._worker.send(order.to_line())
        try:
            return self._receive_result()
        except _WorkerLostError as lost:
            return _reject(path, data, lost.verdict.status, *lost.verdict.reasons)

    def _restart(self) -> None:
        again = self._start()
        if not again.verdict.has_passed:
            raise ReplayError(
                f"K0 passed before and is {again.verdict.status} in a new process: "
                + "; ".join(again.verdict.reasons[:1])
            )

    def _start(self) -> ObjectResult:
        """Start workers until one has all addresses free; its result for K0."""
        message = ""
        for _ in range(_START_ATTEMPTS):
            self.close()
            self._worker = WorkerProcess(self._environment, self._held)
            self._worker.send(self._job.to_line())
            first = self._receive_restored(self._worker)
            if first["event"] == Event.RESTORED:
                return self._receive_k0()
            message = str(first.get("message"))
            if first["event"] != Event.ADDRESS_TAKEN:
                self.close()
                raise _make_error(first)
        self.close()
        raise ReplayError(
            f"{_START_ATTEMPTS} processes had no room at the captured addresses: {message}"
        )

    def _receive_restored(self, worker: WorkerProcess) -> dict[str, Any]:
        try:
            message = worker.receive(self._transfer_s)
        except TimeoutError:
            self.close()
            raise ReplayError(f"restoring the bundle took over {self._transfer_s:.0f} s") from None
        if message is None:
            how = worker.describe_end()
            self.close()
            raise ReplayError(f"a replay worker ended while restoring the bundle: {how}")
        return message

    def _receive_k0(self) -> ObjectResult:
        try:
            return self._receive_result()
        except _WorkerLostError as lost:
            with open_bundle(Path(self._job.bundle)) as bundle:
                data = bundle.code_object()
            return _reject(Path("K0"), data, lost.verdict.status, *lost.verdict.reasons)

    def _receive_result(self) -> ObjectResult:
        """Wait for a result; the worker is gone afterwards if the launch failed."""
        assert self._worker is not None
        limit_s, is_launching = self._transfer_s, False
        while True:
            try:
                message = self._worker.receive(limit_s)
            except TimeoutError:
                self.close()
                what = "the launch" if is_launching else "restoring or comparing memory"
                verdict = Verdict(
                    status=Status.TIMED_OUT, reasons=(f"{what} took over {limit_s:g} s",)
                )
                raise _WorkerLostError(verdict) from None
            if message is None:
                how = self._worker.describe_end()
                self.close()
                verdict = Verdict(
                    status=Status.RUNTIME_FAILURE, reasons=(f"the process died: {how}",)
                )
                raise _WorkerLostError(verdict)
            event = message["event"]
            if event == Event.RESULT:
                result = ObjectResult.from_json(message["result"])
                if result.verdict.status is Status.RUNTIME_FAILURE:
                    self.close()
                return result
            if event == Event.ERROR:
                self.close()
                raise _make_error(message)
            is_launching = event == Event.LAUNCHING
            limit_s = self._timeout_s if is_launching else self._transfer_s


def _make_error(message: Mapping[str, Any]) -> AsmevoError:
    """The worker's error as ours."""
    kinds = {kind.__name__: kind for kind in (BundleError, MissingToolError)}
    return kinds.get(str(message.get("kind")), ReplayError)(str(message.get("message")))


def _reject(path: Path, data: bytes, status: Status, *reasons: str) -> ObjectResult:
    return ObjectResult(
        name=str(path),
        sha256=sha256(data).hexdigest(),
        verdict=Verdict(status=status, reasons=reasons),
    )


def replay(
    bundle_path: Path,
    candidates: Sequence[Path],
    *,
    device: Device,
    timeout_s: float = 60.0,
    repeats: int = 1,
    types: TypeHints | None = None,
    options: OracleOptions | None = None,
    variants: int = 0,
) -> ReplayResult:
    """Replay a bundle with K0 and with each candidate; see `ReplaySession` for the arguments.

    With a tolerance among the options the candidates' floats are judged by it. Candidates that pass
    are held to at most so many variations of the bundle's inputs.

    Raises:
        BundleError: The bundle is damaged.
        ReplayError: The replay itself could not be run.
        UsageError: A candidate's file cannot be read, or the device is of another architecture.
    """
    changes_arithmetic = options is not None and options.tolerance is not None

    def open_session(path: Path) -> ReplaySession:
        return ReplaySession(
            path,
            device=device,
            timeout_s=timeout_s,
            repeats=repeats,
            types=types,
            options=options,
        )

    for path in candidates:  # before K0's run, which may take long
        read_bounded(path, _CANDIDATE_LIMIT_BYTES)
    with open_session(bundle_path) as session:
        results = tuple(
            session.run(path, changes_arithmetic=changes_arithmetic) for path in candidates
        )
        tried: tuple[VariantOutcome, ...] = ()
        if variants and session.k0.verdict.has_passed:
            with open_variants(bundle_path, open_session, limit=variants, types=types) as usable:
                results, tried = judge_on_variants(
                    tuple(zip(candidates, results, strict=True)),
                    usable,
                    changes_arithmetic=changes_arithmetic,
                )
        return ReplayResult(
            bundle=str(bundle_path),
            kernel=session.kernel,
            device=str(device),
            notes=session.notes,
            k0=session.k0,
            candidates=results,
            variants=tried,
        )
