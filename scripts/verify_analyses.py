"""Runs all analyses on the kernels of code objects: how many answer, how many refuse and why.

The kernels are those that compilers and engineers ship: uses of registers that may be loading
and instructions too close for a hazard should be rare, and are counted by rule.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from asmevo.codeobject.analysis import AnalysisRefusal, KernelAnalysis, analyse_kernel
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.containers import FoundObject, find_code_objects, find_files
from asmevo.codeobject.recover import recover
from asmevo.codeobject.roundtrip import CHECKED_TARGETS
from asmevo.errors import AsmevoError

_QUOTED = re.compile(r"'(\S+)[^']*'")


class Summary:
    """What came of all kernels."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.analysed: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.suspected: Counter[str] = Counter()
        self.irreducible = 0
        self.instructions = 0
        self.seconds = 0.0
        self.slowest = (0.0, 0, "")

    def add(self, analysis: KernelAnalysis, seconds: float, name: str) -> None:
        """Count a kernel whose analyses are worked out."""
        count = len(analysis.program.instructions)
        self.analysed[analysis.arch] += 1
        self.instructions += count
        self.seconds += seconds
        self.slowest = max(self.slowest, (seconds, count, name))
        self.irreducible += not analysis.loops.is_reducible
        self.suspected["register may be loading"] += bool(analysis.wait_violations)
        self.suspected.update({one.rule for one in analysis.hazards})

    def describe(self) -> Iterator[str]:
        """Lines of text."""
        total, refused = sum(self.analysed.values()), sum(self.refused.values())
        targets = ", ".join(f"{count} {arch}" for arch, count in sorted(self.analysed.items()))
        yield f"{total} kernels analysed ({targets}), {refused} refused"
        for reason, count in self.refused.most_common():
            yield f"  {count} refused: {reason}"
        for rule, count in self.suspected.most_common():
            yield f"  {count} kernels with a suspect: {rule}"
        yield f"  {self.irreducible} kernels with an irreducible cycle"
        if self.instructions:
            rate = 1e6 * self.seconds / self.instructions
            seconds, count, name = self.slowest
            yield f"{self.instructions} instructions, {rate:.0f} us of CPU each for all analyses"
            yield f"slowest: {seconds:.2f} s of CPU for {count} instructions of {name}"


def analyse_all(analysis: KernelAnalysis) -> None:
    """Ask every analysis."""
    program = analysis.program
    for _ in (analysis.dominators, analysis.post_dominators, analysis.loops):
        pass
    for _ in (analysis.liveness, analysis.def_use.chains, analysis.uniformity):
        pass
    for _ in (analysis.wait_violations, analysis.hazards, analysis.outstanding_at_sync):
        pass
    assert program.order


def check_object(found: FoundObject, summary: Summary) -> None:
    """Analyse every kernel of one code object."""
    listing = recover(found.data)
    for kernel in listing.kernels:
        begun = time.process_time()
        try:
            analysis = analyse_kernel(listing, kernel.name)
            analyse_all(analysis)
        except AnalysisRefusal as refusal:
            summary.refused[_QUOTED.sub(r"\1", str(refusal))] += 1
        else:
            summary.add(analysis, time.process_time() - begun, f"{found.path.name} {kernel.name}")


def _is_for_us(data: bytes) -> bool:
    try:
        source = CodeObject.read(data)
    except AsmevoError:
        return False
    return source.target in CHECKED_TARGETS and bool(source.kernels)


def main() -> int:
    """Analyse, print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, prog="scripts/verify_analyses")
    parser.add_argument("files", type=Path, nargs="+", help="code objects, bundles, folders")
    parser.add_argument("--sample", type=int, metavar="N", help="only N files, picked by a seed")
    options = parser.parse_args()
    files = list(find_files(options.files))
    if options.sample is not None and options.sample < len(files):
        files = random.Random(0).sample(files, options.sample)
    summary = Summary()
    for number, path in enumerate(files, 1):
        if sys.stderr.isatty():
            print(f"\r{number}/{len(files)}", end="", file=sys.stderr)
        try:
            for found in find_code_objects(path):
                if _is_for_us(found.data):
                    check_object(found, summary)
        except AsmevoError as error:
            print(f"{path}: {error}")
    print("\n".join(summary.describe()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
