"""Finds the pages that captured dispatches touch, by executing them on the emulated device."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from asmevo.capture.bundle import open_bundle
from asmevo.capture.manifest import AddressRange
from asmevo.capture.touched import Touched
from asmevo.errors import AsmevoError, ReplayError
from asmevo.replay.device import Device

__all__ = ["TouchTracer"]

_ATTEMPTS = 6  # processes until one has the captured addresses free


class TouchTracer:
    """Keeps a worker for each architecture; use as a context manager, from any threads."""

    def __init__(self, *, timeout_s: float = 30.0) -> None:
        """Nothing is started yet; `timeout_s` is of one execution."""
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._workers: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        """Return the tracer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the workers."""
        for worker in self._workers.values():
            _end(worker)
        self._workers.clear()

    def trace(self, bundle: Path, absent: Sequence[AddressRange]) -> Touched:
        """Execute a bundle; what goes wrong is in the answer.

        Raises:
            BundleError: It cannot be read.
        """
        with open_bundle(bundle) as opened:
            arch = opened.manifest.dispatch.arch.partition(":")[0]
        order = {
            "bundle": str(bundle.absolute()),
            "absent": [[one.address, one.size_bytes] for one in absent],
            "timeout_s": self._timeout_s,
        }
        with self._lock:
            return self._trace(arch, order)

    def _trace(self, arch: str, order: dict[str, Any]) -> Touched:
        problem = ""
        for _ in range(_ATTEMPTS):
            try:
                answer = self._ask(arch, order)
            except AsmevoError as error:
                return Touched(problem=str(error))
            if "address_taken" not in answer:
                return _parse(answer)
            problem = str(answer["address_taken"])
            _end(self._workers.pop(arch))  # another process has other addresses
        return Touched(problem=f"no process had room at the captured addresses: {problem}")

    def _ask(self, arch: str, order: dict[str, Any]) -> dict[str, Any]:
        if arch not in self._workers:
            self._workers[arch] = _start(arch)
        worker = self._workers[arch]
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(json.dumps(order) + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
            answer = json.loads(line)
        except (OSError, ValueError) as error:
            _end(self._workers.pop(arch))
            raise ReplayError("the process that executes captured dispatches ended") from error
        if not isinstance(answer, dict):
            raise ReplayError("the process that executes captured dispatches gave an odd answer")
        return answer


def _start(arch: str) -> subprocess.Popen[str]:
    environment = Device.emulated(arch=arch).environment()
    environment["ASMEVO_EMULATOR_CHECKS"] = "none"
    environment["OPENBLAS_NUM_THREADS"] = "1"
    return subprocess.Popen(
        [sys.executable, "-m", "asmevo.replay.touch_worker"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _end(worker: subprocess.Popen[str]) -> None:
    worker.kill()
    worker.communicate()


def _parse(answer: dict[str, Any]) -> Touched:
    return Touched(
        pages=tuple(
            AddressRange(address=int(address), size_bytes=int(size))
            for address, size in sorted(answer.get("pages", []))
        ),
        problem=str(answer.get("problem", "")),
        is_beyond_memory=bool(answer.get("is_beyond_memory", False)),
        is_golden=answer.get("is_golden"),
    )
