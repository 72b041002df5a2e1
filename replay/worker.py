"""One replay in a process of its own: `python -m asmevo.replay.worker RESULTS_FD LIFE_FD`.

Reads a job and then candidates from stdin (see `job`) and writes messages to the descriptor, so
that nothing that a library prints can mix with them. The process ends after a failed launch: the
device's state is lost with it. It also ends, in whatever call it is, when the other end of LIFE_FD
is closed.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import sys
from pathlib import Path

from asmevo.capture.bundle import Bundle, open_bundle
from asmevo.errors import AsmevoError
from asmevo.replay.address_hold import AddressTakenError, check_held
from asmevo.replay.hip_runtime import HipRuntime
from asmevo.replay.job import EXIT_ADDRESS_TAKEN, CandidateOrder, Event, Job
from asmevo.replay.launcher import Emit, Launcher
from asmevo.replay.layout import plan_hold
from asmevo.replay.oracle import Oracle
from asmevo.replay.restore import RestoredMemory
from asmevo.replay.timing import Timer
from asmevo.verdict import Status

__all__ = ["main"]


def _restore(bundle: Bundle, job: Job, emit: Emit) -> Oracle:
    held = plan_hold(bundle.manifest.regions)
    runtime = HipRuntime(is_emulated=job.is_emulated)
    launcher = Launcher(
        runtime,
        bundle.manifest.dispatch,
        bundle.kernarg(),
        emit,
        is_emulated=job.is_emulated,
        argument_offsets=job.argument_offsets,
    )
    launcher.report.collect_findings(job.options.checks)
    memory = RestoredMemory(bundle, runtime, held, job.old_image)
    return Oracle(bundle, job, memory, launcher, Timer(runtime, memory, launcher, job.options))


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
    check_held()
    job = Job.from_line(sys.stdin.readline())
    with open_bundle(Path(job.bundle)) as bundle:
        oracle = _restore(bundle, job, emit)
        emit(Event.RESTORED)
        result = oracle.run_k0()
        emit(Event.RESULT, result=result.to_json())
        while result.verdict.status is not Status.RUNTIME_FAILURE:
            line = sys.stdin.readline()
            if not line:
                return
            result = oracle.run_candidate(CandidateOrder.from_line(line))
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
