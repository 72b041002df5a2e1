"""Tries deletions on one bundle: does one matter, and do the checks report it?

Two judges that share nothing but the device's instruction semantics. The first runs with all
checks off, each launch with another order of waves and other memory latencies, and compares the
memory that the launch leaves. The second runs in the usual order with all checks on and looks at
findings only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mutation import Mutation

from asmevo.capture.bundle import open_bundle
from asmevo.errors import AsmevoError
from asmevo.replay.device import Device
from asmevo.replay.engine import ReplaySession
from asmevo.replay.findings import Finding, find_new_errors
from asmevo.replay.options import OracleOptions
from asmevo.verdict import Status

__all__ = ["BundleTrial", "Outcome"]


_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one deletion did.

    Attributes:
        effect: How it showed with the checks off; empty when it did not.
        rules: Rules of the findings that name both instructions.
        half_named: Rules of the findings that name only one.
    """

    kernel: str
    arch: str
    mnemonic: str
    text: str
    offset: int
    effect: str
    rules: tuple[str, ...]
    half_named: tuple[str, ...]

    @property
    def matters(self) -> bool:
        """True when some seed changed what the kernel leaves."""
        return bool(self.effect)

    @property
    def is_reported(self) -> bool:
        """True when a finding names both instructions."""
        return bool(self.rules)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        """The inverse of `to_json`."""
        rules, half = tuple(data.pop("rules")), tuple(data.pop("half_named"))
        return cls(**data, rules=rules, half_named=half)


class BundleTrial:
    """One bundle in two replay sessions. Use it as a context manager."""

    def __init__(self, bundle: Path, seeds: Sequence[int]) -> None:
        """Start nothing yet."""
        with open_bundle(bundle) as opened:
            self.arch = opened.manifest.dispatch.arch.partition(":")[0]
            self.kernel = opened.manifest.dispatch.kernel
            self.code_object = opened.code_object()
        device = Device.emulated(arch=self.arch, threads=1)
        self._by_memory = ReplaySession(
            bundle,
            device=device,
            timeout_s=_TIMEOUT_S,
            options=OracleOptions(checks="none", seeds=tuple(seeds), second_state=False),
        )
        self._by_checks = ReplaySession(
            bundle,
            device=device,
            timeout_s=_TIMEOUT_S,
            options=OracleOptions(seeds=(), second_state=False),
        )
        self._file = bundle.with_suffix(".mutant")

    def __enter__(self) -> BundleTrial:
        """Return the trial itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the sessions."""
        self._by_memory.close()
        self._by_checks.close()
        self._file.unlink(missing_ok=True)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the checks say of the unchanged kernel."""
        return self._by_checks.k0.findings

    @property
    def order_dependence(self) -> str:
        """Under which seed the unchanged kernel gives another result; empty when none."""
        return self._by_memory.k0.order_dependence

    def find_obstacle(self) -> str:
        """Why nothing can be tried on this bundle; empty when it can."""
        for session in (self._by_memory, self._by_checks):
            if not session.k0.verdict.has_passed:
                return "; ".join((session.k0.verdict.status, *session.k0.verdict.reasons))[:300]
        when = self.order_dependence
        return f"the unchanged kernel gives another result {when}" if when else ""

    def run(self, mutations: Iterator[Mutation]) -> Iterator[Outcome]:
        """Try each deletion."""
        for mutation in mutations:
            self._file.write_bytes(mutation.code_object)
            try:
                yield self._try(mutation)
            except AsmevoError as error:
                raise AsmevoError(f"{self.kernel}, without {mutation.text}: {error}") from error

    def _try(self, mutation: Mutation) -> Outcome:
        verdict = self._by_memory.run(self._file).verdict
        checked = self._by_checks.run(self._file)
        errors = find_new_errors(checked.findings, self.findings)
        if checked.verdict.status is Status.TIMED_OUT:
            errors = ()
        return Outcome(
            kernel=self.kernel,
            arch=self.arch,
            mnemonic=mutation.mnemonic,
            text=mutation.text,
            offset=mutation.offset,
            effect="" if verdict.has_passed else _shorten(verdict.status, verdict.reasons),
            rules=tuple(sorted({item.rule for item in errors if item.other_instruction})),
            half_named=tuple(sorted({item.rule for item in errors if not item.other_instruction})),
        )


def _shorten(status: Status, reasons: tuple[str, ...]) -> str:
    return f"{status}: {reasons[0]}"[:200] if reasons else str(status)
