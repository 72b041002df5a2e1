"""Runs real Triton kernels through their libraries' wrappers on the emulated device, against torch.

    scripts/verify_kernels [--arch gfx942] [--only PATTERN] [--jobs 2] [--fresh] [--table FILE]

Each case runs in a child process and leaves a result file, so a crash costs one case and an
interrupted run goes on where it stopped. A result counts as long as the device, the case's module
and the harness are the same.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path

from kernel_case import ARCHES, Case, find_cases
from kernel_library import get_library
from kernel_result import Job, Outcome
from kernel_table import format_table

from asmevo import native

__all__ = ["find_jobs", "find_outcomes", "main", "run_jobs"]

_HERE = Path(__file__).parent


def make_key(case: Case) -> str:
    """Digest of the device, the harness, the case's module and the wheel's version."""
    names = ("kernel_trial", "kernel_case", f"{case.library}_library")
    sources = [_HERE / f"{name}.py" for name in names]
    sources += [Path(sys.modules[case.function.__module__].__file__ or "")]
    digest = hashlib.sha256(get_library(case.library).version.encode())
    for path in [native.emulator_library(), *sources]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def find_jobs(arches: Sequence[str], *, only: str = "*", fast: bool = False) -> list[Job]:
    """Jobs of the cases whose id matches the pattern.

    The last dtype of each comes first, so that a run soon has seen every kernel.
    """
    rank: dict[str, int] = {}
    seen: Counter[str] = Counter()
    for case in reversed(list(find_cases())):
        rank[case.id] = seen[f"{case.library}.{case.name}"]
        seen[f"{case.library}.{case.name}"] += 1
    return [
        Job(case=case.id, arch=arch, key=make_key(case))
        for case in sorted(find_cases(), key=lambda case: rank[case.id])
        for arch in arches
        if arch in case.arches and fnmatch.fnmatch(case.id, only) and (case.is_fast or not fast)
    ]


def _find_done(job: Job) -> Outcome | None:
    if not job.path.is_file():
        return None
    outcome = Outcome.read(job.path)
    return outcome if outcome.key == job.key else None


def _run_host(arch: str, jobs: Sequence[Job], processes: int) -> None:
    host = [sys.executable, str(_HERE / "kernel_host.py")]
    emulate = [sys.executable, "-m", "asmevo", "emulate", "--arch", arch, "--threads", "1"]
    # Triton 3.9 warns when nothing says whether products and sums may be fused.
    environment = {
        "ASMEVO_EMULATOR_LOG": "1",
        "OMP_NUM_THREADS": "1",
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([asdict(job) for job in jobs], file)
        file.flush()
        command = [*emulate, "--", *host, file.name, "--processes", str(processes)]
        subprocess.run(command, check=True, env=os.environ | environment)


def run_jobs(jobs: Sequence[Job], *, processes: int, fresh: bool = False) -> dict[Job, Outcome]:
    """Run what has no result yet; outcomes of all."""
    for arch in ARCHES:
        own = [job for job in jobs if job.arch == arch and (fresh or _find_done(job) is None)]
        if own:
            _run_host(arch, own, processes)
    return find_outcomes(jobs)


def find_outcomes(jobs: Sequence[Job]) -> dict[Job, Outcome]:
    """The results that are there."""
    found = {job: _find_done(job) for job in jobs}
    return {job: outcome for job, outcome in found.items() if outcome is not None}


def _find_commit() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=_HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "unknown"


def main() -> None:
    """Run the cases that the arguments choose; exit code 1 when one of them failed."""
    parser = argparse.ArgumentParser(description="Verify real kernels on the emulated device")
    parser.add_argument("--arch", choices=ARCHES, action="append", help="default: all")
    parser.add_argument("--only", default="*", help="pattern of case names, such as 'vllm.*'")
    parser.add_argument("--fast", action="store_true", help="the subset that scripts/test runs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--fresh", action="store_true", help="run again what has a result")
    parser.add_argument("--no-run", action="store_true", help="report the results that are there")
    parser.add_argument("--table", type=Path, help="write the results as Markdown")
    arguments = parser.parse_args()
    jobs = find_jobs(arguments.arch or ARCHES, only=arguments.only, fast=arguments.fast)
    if not jobs:
        parser.error(f"no case is called {arguments.only}")
    if arguments.no_run:
        outcomes = find_outcomes(jobs)
    else:
        outcomes = run_jobs(jobs, processes=arguments.jobs, fresh=arguments.fresh)
    cases = {case.id: case for case in find_cases()}
    if arguments.table:
        arguments.table.write_text(
            format_table(
                [(cases[job.case], result) for job, result in outcomes.items()],
                source=f"{date.today()}, commit {_find_commit()}",
            )
        )
        print(f"Wrote {arguments.table}")
    failed = 0
    for job, outcome in outcomes.items():
        finding = cases[job.case].finding
        if bool(outcome.reason) != bool(finding):
            failed += 1
            reason = outcome.reason or f"passed in spite of: {finding}"
            print(f"FAILED {job.arch} {job.case}: {reason}")
    print(f"{len(outcomes) - failed} of {len(jobs)} as expected")
    sys.exit(1 if failed or len(outcomes) < len(jobs) else 0)


if __name__ == "__main__":
    main()
