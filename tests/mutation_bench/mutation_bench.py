"""Measures how many deletions that matter the run-time checks report.

    scripts/mutation_bench [--arch gfx942] [--only PATTERN]… [--seeds 8] [--sample N] [--fresh]
                           [--json FILE]

Captures one dispatch of each kernel of the fast cases of tests/kernels, deletes one s_waitcnt,
s_barrier or s_nop at a time and asks two judges about each (see trial.py). Results are kept as they
are made: an interrupted run goes on where it stopped, and one process for each architecture
may run at a time.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernel_case import ARCHES, find_cases
from mutation import MNEMONICS, find_mutations
from record import BundleSource, record
from trial import BundleTrial, Outcome

from asmevo import native
from asmevo.errors import AsmevoError

__all__ = ["main"]

# Bits of seeds (docs/internals.md), and what these show with them.
_LENIENCE = (
    (0, "all wait states"),
    (1 << 62, "wait states but for scalars read by the VALU, and M0"),
    (1 << 63, "no wait states"),
)


def _find_sources(arches: Sequence[str], only: Sequence[str]) -> Iterator[BundleSource]:
    for case in find_cases():
        wanted = any(fnmatch.fnmatch(case.id, one) for one in only) if only else case.is_fast
        for arch in arches:
            if wanted and arch in case.arches:
                yield BundleSource(case=case.id, arch=arch, kernels=case.kernels)


class _Results:
    """Outcomes of one bundle in a file beside it, a line each; the last says that all are there."""

    def __init__(self, bundle: Path, key: str) -> None:
        self.path = bundle.with_suffix(f".{key}.jsonl")

    def read(self) -> tuple[list[Outcome], str, bool]:
        """Outcomes, the obstacle if there is one, and whether nothing is missing."""
        outcomes, obstacle, is_complete = [], "", False
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        for line in lines:
            data = json.loads(line)
            if "complete" in data:
                is_complete, obstacle = True, data["complete"]
            else:
                outcomes.append(Outcome.from_json(data))
        return outcomes, obstacle, is_complete

    def append(self, data: dict[str, object]) -> None:
        """Write one line."""
        with self.path.open("a") as file:
            file.write(json.dumps(data) + "\n")


def _make_key(seeds: int, sample: int) -> str:
    digest = hashlib.sha256(f"{seeds} {sample}".encode())
    digest.update(native.emulator_library().read_bytes())
    return digest.hexdigest()[:12]


def _run_bundle(bundle: Path, results: _Results, seeds: Sequence[int], sample: int) -> None:
    """Try what has no result yet.

    A kernel that itself lacks wait states gives other results under seeds. Then fewer kinds of wait
    states show in them, and fewer deletions of s_nop can matter.
    """
    known, _, is_complete = results.read()
    if is_complete:
        return
    done = {outcome.offset for outcome in known}
    for bits, what in _LENIENCE:
        with BundleTrial(bundle, [seed | bits for seed in seeds]) as trial:
            if trial.order_dependence and bits != _LENIENCE[-1][0]:
                continue
            print(f"  seeds show {what}", flush=True)
            for rule, places in Counter(finding.rule for finding in trial.findings).items():
                print(f"  unchanged kernel: {rule} at {places} places", flush=True)
            if obstacle := trial.find_obstacle():
                results.append({"complete": obstacle})
                return
            mutations = find_mutations(trial.code_object, trial.kernel, sample)
            for outcome in trial.run(one for one in mutations if one.offset not in done):
                results.append(outcome.to_json())
                if outcome.matters and not outcome.is_reported:
                    print(f"  missed: {outcome.text} at +0x{outcome.offset:x}: {outcome.effect}")
            results.append({"complete": ""})
            return


def _print_table(outcomes: Sequence[Outcome]) -> bool:
    print("deleted      tried  matter  reported  share   reported though no seed showed it")
    total_matter = total_reported = 0
    for mnemonic in MNEMONICS:
        own = [item for item in outcomes if item.mnemonic == mnemonic]
        matter = [item for item in own if item.matters]
        reported = [item for item in matter if item.is_reported]
        early = [item for item in own if item.is_reported and not item.matters]
        share = f"{len(reported) / len(matter):.1%}" if matter else "-"
        counts = f"{len(own):5}  {len(matter):6}  {len(reported):8}"
        print(f"{mnemonic:12} {counts}  {share:>6}  {len(early)}")
        total_matter += len(matter)
        total_reported += len(reported)
    share = f"{total_reported / total_matter:.1%}" if total_matter else "-"
    print(f"{'all':12} {len(outcomes):5}  {total_matter:6}  {total_reported:8}  {share:>6}")
    return total_matter > 0 and total_reported >= 0.95 * total_matter


def main() -> None:
    """Run the bench; exit code 1 below 95 %."""
    parser = argparse.ArgumentParser(description="Mutation bench of the run-time checks")
    parser.add_argument("--arch", choices=ARCHES, action="append", help="default: all")
    parser.add_argument(
        "--only", action="append", help="pattern of case names (default: the fast cases)"
    )
    parser.add_argument("--seeds", type=int, default=8, help="orders tried for each deletion")
    parser.add_argument("--sample", type=int, default=0, help="deletions of a kernel; 0: all")
    parser.add_argument("--fresh", action="store_true", help="try again what has a result")
    parser.add_argument("--json", type=Path, help="write all outcomes")
    arguments = parser.parse_args()
    outcomes: list[Outcome] = []
    key = _make_key(arguments.seeds, arguments.sample)
    for source in _find_sources(arguments.arch or ARCHES, arguments.only or ()):
        try:
            bundles = record(source)
        except AsmevoError as error:
            print(f"{source.arch} {source.case}: not captured: {error}", flush=True)
            continue
        for bundle in bundles:
            results = _Results(bundle, key)
            if arguments.fresh:
                results.path.unlink(missing_ok=True)
            print(f"{source.arch} {source.case}: {bundle.name}", flush=True)
            _run_bundle(bundle, results, range(1, arguments.seeds + 1), arguments.sample)
            own, obstacle, _ = results.read()
            matter = [item for item in own if item.matters]
            reported = sum(item.is_reported for item in matter)
            print(
                f"  {obstacle}"
                if obstacle
                else f"  {len(own)} deletions, {len(matter)} matter, {reported} of them reported",
                flush=True,
            )
            outcomes += own
    is_enough = _print_table(outcomes)
    if arguments.json:
        arguments.json.write_text(json.dumps([item.to_json() for item in outcomes], indent=1))
    sys.exit(0 if is_enough else 1)


if __name__ == "__main__":
    main()
