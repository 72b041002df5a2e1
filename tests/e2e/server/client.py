"""Starts the demo server, asks it, and checks its answers against torch."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from workloads import WORKLOADS

__all__ = ["Answer", "DemoServer", "check_answer"]

Answer = dict[str, Any]
_SERVE = Path(__file__).with_name("serve.py")


class DemoServer:
    """The server as a child process; stopped at the block's end, by SIGKILL when need be.

    Args:
        environment: what the child gets, such as that of the emulated device; default: ours.
        prefix: command to run the server under, for example `["asmevo", "swap", "run", DIR, "--"]`.
        start_timeout_s: how long the start may take.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        start_timeout_s: float = 300,
    ) -> None:
        self._command = [*prefix, sys.executable, str(_SERVE), "--port", "0"]
        self._environment = dict(os.environ if environment is None else environment)
        self._start_timeout_s = start_timeout_s
        self.port = 0
        self.pid = 0

    def __enter__(self) -> Self:
        """Start it and wait until it serves."""
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._log, env=self._environment
        )
        try:
            self._wait_until_healthy()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it."""
        self._stop()

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        assert self._process.stdout is not None
        stdout = self._process.stdout
        is_ready = select.select([stdout], [], [], self._start_timeout_s)[0]
        line = stdout.readline() if is_ready else b""
        if not line:
            raise RuntimeError(f"the server did not start: {self.log[-2000:]}")
        started = json.loads(line)
        self.port, self.pid = started["port"], started["pid"]
        while True:
            try:
                self._ask("/health", None, timeout_s=30)
                return
            except (urllib.error.URLError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._final_log = self.log
        self._log.close()

    @property
    def log(self) -> str:
        """What the server wrote to stderr so far."""
        if self._log.closed:
            return self._final_log
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    @property
    def is_alive(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    def wait(self, *, timeout_s: float) -> int:
        """The exit code, once the process has ended."""
        return self._process.wait(timeout=timeout_s)

    def _ask(self, path: str, body: Mapping[str, object] | None, *, timeout_s: float) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data)
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            parsed: Answer = json.load(answer)
            return parsed

    def health(self) -> Answer:
        """GET /health."""
        return self._ask("/health", None, timeout_s=60)

    def run(self, kernel: str, *, seed: int = 0, timeout_s: float = 300, **sizes: int) -> Answer:
        """POST /run/KERNEL; RuntimeError with the server's words when it refuses."""
        try:
            return self._ask(f"/run/{kernel}", {"seed": seed, **sizes}, timeout_s=timeout_s)
        except urllib.error.HTTPError as error:
            with error:
                raise RuntimeError(f"{kernel}: {error.read().decode()}") from error

    def run_checked(self, kernel: str, *, seed: int = 0, **sizes: int) -> Answer:
        """Run a kernel and raise AssertionError when its answer is not torch's."""
        answer = self.run(kernel, seed=seed, **sizes)
        check_answer(answer, seed=seed, **sizes)
        return answer


def check_answer(answer: Answer, *, seed: int, **sizes: int) -> None:
    """Compare an answer with torch's in float32; AssertionError names output and difference."""
    workload = WORKLOADS[answer["kernel"]]
    expected = workload.reference(workload.make_inputs(seed, sizes))
    assert set(answer["outputs"]) == set(expected), set(answer["outputs"])
    for name, reference in expected.items():
        output = answer["outputs"][name]
        assert output["shape"] == list(reference.shape), (name, output["shape"])
        values = torch.tensor(output["values"]).reshape(reference.shape)
        difference = (values - reference).abs() / reference.abs().clamp(min=1)
        # `not <=` also catches NaN.
        if not bool((difference <= workload.tolerance).all()):
            raise AssertionError(
                f"{answer['kernel']}.{name} is off by {difference.max().item():.3g}, "
                f"more than {workload.tolerance:.3g}"
            )
