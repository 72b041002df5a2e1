"""Runs cases on the emulated device, each in a forked child, so that a crash costs one case.

Started by verify_kernels.py under `asmevo emulate`. It has torch, Triton and the cases imported
before it forks, but has not touched the device.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import triton  # noqa: F401  (imported once, for all children)
from kernel_case import CASES, Case, find_cases
from kernel_result import Job, Outcome, judge, parse_launches
from kernel_trial import Trial

__all__ = ["main"]

_TIMEOUT_S = 1200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child:
    job: Job
    started: float

    @property
    def log(self) -> Path:
        return self.job.path.with_suffix(".log")

    @property
    def output(self) -> Path:
        return self.job.path.with_suffix(".partial")


def _run_case(case: Case, arch: str, output: Path) -> None:
    """Run a case in this process and write its comparisons."""
    trial = Trial(case=case, arch=arch)
    error = ""
    try:
        case.function(trial)
    except Exception as exception:
        traceback.print_exc()
        error = f"{type(exception).__name__}: {exception}"
    comparisons = [comparison.to_json() for comparison in trial.comparisons]
    output.write_text(json.dumps({"error": error, "comparisons": comparisons}))


def _fork(job: Job) -> tuple[int, _Child]:
    job.path.parent.mkdir(parents=True, exist_ok=True)
    child = _Child(job=job, started=time.monotonic())
    child.output.unlink(missing_ok=True)
    pid = os.fork()
    if pid:
        return pid, child
    exit_code = 1
    try:
        log = os.open(child.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(log, 1)
        os.dup2(log, 2)
        _run_case(CASES[job.case], job.arch, child.output)
        exit_code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(exit_code)


def _finish(child: _Child, exit_code: int) -> Outcome:
    """Judge what the child left, and write the result file."""
    written = json.loads(child.output.read_text()) if child.output.is_file() else None
    launches = parse_launches(child.log.read_text(errors="replace"))
    outcome = Outcome(
        case=child.job.case,
        arch=child.job.arch,
        key=child.job.key,
        reason=judge(CASES[child.job.case], exit_code, written, launches),
        seconds=round(time.monotonic() - child.started, 1),
        launches=launches,
        comparisons=tuple(written["comparisons"]) if written else (),
    )
    child.output.write_text(outcome.to_json())
    child.output.rename(child.job.path)
    return outcome


def _run_all(jobs: Sequence[Job], *, processes: int) -> None:
    pending, running = list(jobs), dict[int, _Child]()
    while pending or running:
        while pending and len(running) < processes:
            pid, child = _fork(pending.pop(0))
            running[pid] = child
        for pid, child in running.items():
            if time.monotonic() - child.started > _TIMEOUT_S:
                os.kill(pid, signal.SIGKILL)
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            time.sleep(0.05)
            continue
        outcome = _finish(running.pop(pid), os.waitstatus_to_exitcode(status))
        verdict = f"FAILED: {outcome.reason}" if outcome.reason else "ok"
        print(f"{outcome.arch} {outcome.case} {outcome.seconds:.1f} s {verdict}", flush=True)


def main() -> None:
    """Run the jobs that stand in a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=Path)
    parser.add_argument("--processes", type=int, required=True)
    arguments = parser.parse_args()
    list(find_cases())
    jobs = [Job(**fields) for fields in json.loads(arguments.jobs.read_text())]
    _run_all(jobs, processes=arguments.processes)


if __name__ == "__main__":
    main()
