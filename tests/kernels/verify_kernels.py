"""Runs real Triton kernels through their libraries' wrappers on the emulated device, against torch.

    scripts/verify_kernels [--arch gfx942] [--only PATTERN] [--jobs 2] [--fresh] [--table FILE]

Each case runs in a process of its own and leaves a result file, so a crash costs one case and an
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
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from kernel_case import ARCHES, Case, find_cases
from kernel_library import cache_folder, get_library
from kernel_result import Outcome, judge, parse_launches
from kernel_table import format_table

from asmevo import native

__all__ = ["main", "run_case"]

_HERE = Path(__file__).parent
_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A case on an architecture."""

    case: Case
    arch: str
    key: str

    @property
    def path(self) -> Path:
        """The result file."""
        return cache_folder("kernels") / self.arch / f"{self.case.id}.json"


def make_key(case: Case) -> str:
    """Digest of the device, the harness, the case's module and the wheel's version."""
    sources = [
        _HERE / f"{name}.py" for name in ("kernel_trial", "kernel_case", f"{case.library}_library")
    ]
    sources += [Path(sys.modules[case.function.__module__].__file__ or "")]
    digest = hashlib.sha256(get_library(case.library).version.encode())
    for path in [native.emulator_library(), *sources]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def run_case(job: Job) -> Outcome:
    """Run one case in a child process and write its result file."""
    job.path.parent.mkdir(parents=True, exist_ok=True)
    output, log = job.path.with_suffix(".partial"), job.path.with_suffix(".log")
    output.unlink(missing_ok=True)
    child = [sys.executable, str(_HERE / "run_kernel_case.py"), job.case.id]
    child += ["--arch", job.arch, "--output", str(output)]
    emulate = [sys.executable, "-m", "asmevo", "emulate", "--arch", job.arch, "--threads", "1"]
    start = time.monotonic()
    with log.open("wb") as stream:
        try:
            exit_code = subprocess.run(
                [*emulate, "--", *child],
                stdout=stream,
                stderr=stream,
                timeout=_TIMEOUT_S,
                check=False,
                env=os.environ | {"ASMEVO_EMULATOR_LOG": "1", "OMP_NUM_THREADS": "1"},
            ).returncode
        except subprocess.TimeoutExpired:
            exit_code = -9
    seconds = time.monotonic() - start
    written = json.loads(output.read_text()) if output.is_file() else None
    launches = parse_launches(log.read_text(errors="replace"))
    outcome = Outcome(
        case=job.case.id,
        arch=job.arch,
        key=job.key,
        reason=judge(job.case, exit_code, written, launches),
        seconds=round(seconds, 1),
        launches=launches,
        comparisons=tuple(written["comparisons"]) if written else (),
    )
    output.write_text(outcome.to_json())
    output.rename(job.path)
    return outcome


def _find_done(job: Job) -> Outcome | None:
    if not job.path.is_file():
        return None
    outcome = Outcome.read(job.path)
    return outcome if outcome.key == job.key else None


def _run_all(jobs: Iterable[Job], *, processes: int, fresh: bool) -> dict[Job, Outcome]:
    outcomes: dict[Job, Outcome] = {}
    with ThreadPoolExecutor(processes) as pool:
        running = {}
        for job in jobs:
            done = None if fresh else _find_done(job)
            if done is None:
                running[pool.submit(run_case, job)] = job
            else:
                outcomes[job] = done
        for future in as_completed(running):
            job = running[future]
            outcomes[job] = outcome = future.result()
            verdict = f"FAILED: {outcome.reason}" if outcome.reason else "ok"
            print(f"{job.arch} {job.case.id} {outcome.seconds:.1f} s {verdict}", flush=True)
    return outcomes


def main() -> None:
    """Run the cases that the arguments choose; exit code 1 when one of them failed."""
    parser = argparse.ArgumentParser(description="Verify real kernels on the emulated device")
    parser.add_argument("--arch", choices=ARCHES, action="append", help="default: all")
    parser.add_argument("--only", default="*", help="pattern of case names, such as 'vllm.*'")
    parser.add_argument("--fast", action="store_true", help="the subset that scripts/test runs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--fresh", action="store_true", help="run again what has a result")
    parser.add_argument("--table", type=Path, help="write the results as Markdown")
    arguments = parser.parse_args()
    jobs = [
        Job(case=case, arch=arch, key=make_key(case))
        for case in find_cases()
        for arch in arguments.arch or ARCHES
        if arch in case.arches
        and fnmatch.fnmatch(case.id, arguments.only)
        and (case.is_fast or not arguments.fast)
    ]
    if not jobs:
        parser.error(f"no case is called {arguments.only}")
    outcomes = _run_all(jobs, processes=arguments.jobs, fresh=arguments.fresh)
    if arguments.table:
        pairs = [(job.case, outcomes[job]) for job in jobs]
        arguments.table.write_text(format_table(pairs))
        print(f"Wrote {arguments.table}")
    failed = [job for job in jobs if outcomes[job].reason]
    for job in failed:
        print(f"FAILED {job.arch} {job.case.id}: {outcomes[job].reason}")
    print(f"{len(jobs) - len(failed)} of {len(jobs)} passed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
