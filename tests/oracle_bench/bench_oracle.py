"""Bench of the oracle: broken kernels that it must reject, harmless edits that it must not.

Every mutant is classified by what it does, by code of the bench's own; then the oracle judges it
with everything on, and once more with the checks of its class switched off.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench_bundles import BENCH_KERNELS, BenchKernel, Bundles, write_bundles
from classify import Behaviour, Classifier
from same_edits import find_equals
from wrong_edits import Mutant, find_mutants

from asmevo.capture.bundle import open_bundle
from asmevo.replay.device import Device
from asmevo.replay.engine import ReplaySession
from asmevo.replay.options import OracleOptions
from asmevo.replay.records import ObjectResult
from asmevo.verdict import Status

_TIME_LIMIT_S = 20.0
_HELD_OUT = "held-out bundles"
_WITHOUT: dict[Behaviour, tuple[str, OracleOptions]] = {
    Behaviour.OUTSIDE: ("guards", OracleOptions(guards=False)),
    Behaviour.UNWRITTEN: (
        "second content of unwritten state, and the check `undefined`",
        OracleOptions(second_state=False, checks="waits,hazards,races,barriers,alignment"),
    ),
    Behaviour.ORDER: (
        "other orders of waves, and the run-time checks",
        OracleOptions(reverse_waves=False, seeds=(), checks="none"),
    ),
    Behaviour.SIZE: (_HELD_OUT, OracleOptions()),
}
"""What finds the mutants of a class, and the oracle without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One mutant, what it does, and what the oracle says."""

    kernel: str
    mutation: str
    text: str
    offset: int
    behaviour: str
    rejected_by: str
    """Empty when it passed."""
    passes_without: bool | None
    """With the checks of its class off; None where that was not tried."""


class _Judge:
    """Replay sessions on the bundles of one kernel."""

    def __init__(self, bundles: Bundles, options: OracleOptions, *, held_out: bool) -> None:
        self._file = bundles.captured.with_suffix(".mutant")
        paths = (bundles.captured, *bundles.held_out) if held_out else (bundles.captured,)
        self._sessions = [
            ReplaySession(
                path,
                device=Device.emulated(arch="gfx942", threads=1),
                timeout_s=_TIME_LIMIT_S,
                options=options,
            )
            for path in paths
        ]

    def find_obstacle(self) -> str:
        """Why K0 itself cannot be judged by; empty when it can."""
        verdicts = [session.k0.verdict for session in self._sessions]
        return next(("; ".join(one.reasons) for one in verdicts if not one.has_passed), "")

    def find_rejection(self, code_object: bytes) -> str:
        """By what a code object is rejected; empty when it is not."""
        self._file.write_bytes(code_object)
        for index, session in enumerate(self._sessions):
            result = session.run(self._file)
            if not result.verdict.has_passed:
                return _name_check(result) if index == 0 else _HELD_OUT
        return ""

    def close(self) -> None:
        """End the workers."""
        for session in self._sessions:
            session.close()


def _name_check(result: ObjectResult) -> str:
    status, reason = result.verdict.status, result.verdict.reasons[0]
    if status is Status.CHECK_FAILED:
        return f"run-time check {reason.split()[0]}"
    if status is not Status.DIVERGENT:
        return status.replace("_", " ")
    if "outside the captured memory" in reason:
        return "guards"
    launch = result.comparisons[-1].launch
    if "turns reversed" in launch or "seed" in launch:
        return "memory, other order or content"
    return "memory, other content of unwritten state" if launch else "memory"


def _run_kernel(kernel: BenchKernel, folder: Path, per_kind: int) -> Iterator[Outcome]:
    bundles = write_bundles(kernel, folder)
    judge = _Judge(bundles, OracleOptions(), held_out=True)
    partial = _PartialJudges(bundles)
    try:
        if obstacle := judge.find_obstacle():
            print(f"  K0 cannot be judged by: {obstacle}", flush=True)
            return
        with open_bundle(bundles.captured) as bundle:
            mutants = list(find_mutants(bundle, per_kind))
            equals = list(find_equals(bundle, 1))
        with Classifier(bundles.captured, bundles.held_out) as classifier:
            classified = [(one, classifier.classify(one.code_object)) for one in mutants]
        for mutant, behaviour in classified:
            yield _judge_mutant(kernel, mutant, behaviour, judge, partial)
        for mutant in equals:
            rejection = judge.find_rejection(mutant.code_object)
            yield _outcome(kernel, mutant, "kept", rejection, None)
    finally:
        judge.close()
        partial.close()


class _PartialJudges:
    """A judge without the checks of a class, made when it is first needed."""

    def __init__(self, bundles: Bundles) -> None:
        self._judges: dict[Behaviour, _Judge] = {}
        self._bundles = bundles

    def close(self) -> None:
        """End the workers."""
        for judge in self._judges.values():
            judge.close()

    def find(self, behaviour: Behaviour) -> _Judge | None:
        """None for a class that has no checks of its own."""
        if behaviour not in _WITHOUT:
            return None
        if behaviour not in self._judges:
            _, options = _WITHOUT[behaviour]
            judge = _Judge(self._bundles, options, held_out=behaviour is not Behaviour.SIZE)
            self._judges[behaviour] = judge
        return self._judges[behaviour]


def _judge_mutant(
    kernel: BenchKernel, mutant: Mutant, behaviour: Behaviour, judge: _Judge, others: _PartialJudges
) -> Outcome:
    rejection = judge.find_rejection(mutant.code_object)
    other = others.find(behaviour) if rejection else None
    passes = None if other is None else not other.find_rejection(mutant.code_object)
    return _outcome(kernel, mutant, behaviour.value, rejection, passes)


def _outcome(
    kernel: BenchKernel, mutant: Mutant, behaviour: str, rejection: str, passes: bool | None
) -> Outcome:
    return Outcome(
        kernel=kernel.name,
        mutation=mutant.mutation,
        text=mutant.text,
        offset=mutant.offset,
        behaviour=behaviour,
        rejected_by=rejection,
        passes_without=passes,
    )


def _print_tables(outcomes: Sequence[Outcome]) -> bool:
    """Markdown; false when something wrong passed or something right did not."""
    mutants = [one for one in outcomes if one.behaviour != "kept"]
    wrong = [one for one in mutants if one.behaviour != Behaviour.SAME]
    kernels = len({one.kernel for one in outcomes})
    rejected = sum(bool(one.rejected_by) for one in wrong)
    print(f"\n{len(mutants)} mutants of {kernels} kernels; {len(wrong)} behave wrongly, ", end="")
    print(f"{rejected} of them rejected.\n")
    _print_behaviours(mutants)
    print()
    _print_counts("mutation", Counter(one.mutation for one in wrong), wrong)
    kept = [one for one in outcomes if one.behaviour == "kept"]
    false = [one for one in kept if one.rejected_by]
    print(f"\n{len(kept)} edits that keep the meaning: {len(false)} rejected")
    for one in (*false, *(one for one in wrong if not one.rejected_by)):
        what = f"rejected by {one.rejected_by}" if one.rejected_by else "passed"
        print(f"  {one.kernel}: {one.mutation} at {one.text!r}: {one.behaviour}: {what}")
    return rejected == len(wrong) and not false


def _print_behaviours(mutants: Sequence[Outcome]) -> None:
    print("| what it does | mutants | rejected | by | checks of its class off: pass |")
    print("|---|---|---|---|---|")
    for behaviour in Behaviour:
        own = [one for one in mutants if one.behaviour == behaviour]
        checks = Counter(one.rejected_by for one in own if one.rejected_by)
        by = ", ".join(f"{name} {count}" for name, count in checks.most_common())
        tried = [one for one in own if one.passes_without is not None]
        lost = sum(bool(one.passes_without) for one in tried)
        off = f"{lost} of {len(tried)}" if tried else "–"
        print(f"| {behaviour} | {len(own)} | {checks.total()} | {by} | {off} |")


def _print_counts(title: str, counts: Counter[str], outcomes: Sequence[Outcome]) -> None:
    print(f"| {title} | behave wrongly | rejected |\n|---|---|---|")
    for name, count in sorted(counts.items()):
        rejected = sum(bool(one.rejected_by) for one in outcomes if one.mutation == name)
        print(f"| {name} | {count} | {rejected} |")


def main() -> None:
    """Run the bench; exit code 1 when the oracle was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="name of a kernel; all by default")
    parser.add_argument("--per-kind", type=int, default=2, help="mutants of a kind and kernel")
    parser.add_argument("--json", type=Path, help="append every outcome to this file as it comes")
    arguments = parser.parse_args()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        for kernel in BENCH_KERNELS:
            if arguments.only and kernel.name not in arguments.only:
                continue
            print(kernel.name, flush=True)
            for outcome in _run_kernel(kernel, Path(folder), arguments.per_kind):
                outcomes.append(outcome)
                if arguments.json:
                    _append(arguments.json, asdict(outcome))
    sys.exit(0 if _print_tables(outcomes) else 1)


def _append(path: Path, record: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
