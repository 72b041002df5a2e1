"""The demo server on the emulated device: every kernel answers what torch does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from client import DemoServer, check_answer
from workloads import WORKLOADS

from asmevo.replay.device import Device

pytestmark = pytest.mark.triton


@pytest.fixture(scope="module")
def server() -> Iterator[DemoServer]:
    with DemoServer(environment=Device.parse("emulated").environment()) as running:
        yield running


@pytest.mark.parametrize("kernel", sorted(WORKLOADS))
def test_answer_of_each_kernel_is_that_of_torch(server: DemoServer, kernel: str) -> None:
    first = server.run_checked(kernel, seed=1)
    again = server.run_checked(kernel, seed=1)
    other = server.run_checked(kernel, seed=2)

    assert first == again
    for name, output in first["outputs"].items():
        assert output["sha256"] != other["outputs"][name]["sha256"]


def test_answer_for_sizes_off_the_tiles_is_that_of_torch(server: DemoServer) -> None:
    server.run_checked("softmax", seed=3, rows=5, columns=33)
    server.run_checked("rms_norm", seed=3, rows=3, columns=130)
    server.run_checked("matmul", seed=3, m=33, n=70, k=96)
    server.run_checked("merge_attn_states", seed=3, tokens=3, heads=2, head_size=80)


def test_answer_check_of_wrong_values_fails(server: DemoServer) -> None:
    answer = server.run("softmax", seed=4)
    answer["outputs"]["out"]["values"][7] += 1e-3

    with pytest.raises(AssertionError, match=r"softmax\.out is off"):
        check_answer(answer, seed=4)


def _cpu_seconds(pid: int) -> float:
    """Processor time of a process: unlike the clock, not a matter of what else runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_warm_request_of_each_kernel_takes_under_a_second_of_processor(server: DemoServer) -> None:
    for kernel in WORKLOADS:
        server.run(kernel)
        start = _cpu_seconds(server.pid)
        server.run(kernel, seed=5)
        assert _cpu_seconds(server.pid) - start < 1, kernel


def test_parallel_requests_get_their_own_answers(server: DemoServer) -> None:
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(server.run_checked, kernel, seed=seed)
            for seed in range(3)
            for kernel in ("softmax", "rms_norm")
        ]
        for job in jobs:
            job.result()


@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [("convolution", {}), ("softmax", {"rows": 0}), ("softmax", {"depth": 3})],
)
def test_bad_request_is_refused_and_server_goes_on(
    server: DemoServer, kernel: str, sizes: dict[str, int]
) -> None:
    with pytest.raises(RuntimeError, match=f"{kernel}: .*error"):
        server.run(kernel, **sizes)

    assert server.health()["ok"]


def test_server_ends_by_sigterm_with_exit_code_0() -> None:
    with DemoServer(environment=Device.parse("emulated").environment()) as server:
        os.kill(server.pid, signal.SIGTERM)

        assert server.wait(timeout_s=10) == 0
