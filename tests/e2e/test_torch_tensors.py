"""CUDA tensors of a CPU torch: in device memory, and otherwise as on a build for a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TIME_LIMIT_S = 300

pytestmark = pytest.mark.triton

CASES = (
    "tensors_say_where_they_are",
    "storages_are_allocations_of_their_size",
    "views_share_memory",
    "in_place_operations_change_the_tensor",
    "out_arguments_are_written_and_resized",
    "devices_are_not_mixed",
    "copies_convert_between_devices",
    "gradients_live_on_the_device",
    "modules_train_as_on_the_cpu",
    "half_precision_sums_are_kept_in_float",
    "random_numbers_are_the_devices_own",
    "tensors_survive_files_and_copies",
    "results_equal_the_cpus",
    "threads_share_the_device",
    "forked_child_has_no_device",
    "products_of_fp8_take_the_formats_of_both_chips",
    "access_beyond_a_tensor_ends_the_launch",
)


def emulate(
    *command: str | Path, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("triton", reason="needs torch and triton")
    return subprocess.run(
        [sys.executable, "-m", "asmevo", "emulate", *options, "--", sys.executable, *command],
        env={**os.environ, "PYTHONWARNINGS": "ignore", "TRITON_DEFAULT_FP_FUSION": "1"},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def outcomes() -> Any:
    done = emulate(HERE / "torch_tensor_program.py")
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES)
def test_cuda_tensors_behave_as_on_a_gpu(outcomes: Any, case: str) -> None:
    assert outcomes[case] is True


def test_every_case_of_the_program_is_listed(outcomes: Any) -> None:
    assert set(outcomes) == set(CASES)


def test_processes_of_a_program_have_the_device_too() -> None:
    done = emulate(HERE / "torch_process_program.py")

    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {
        "spawned": [3.0, 5.0],
        "forked before the device was used": 7.0,
        "subprocess": "True gfx950:sramecc+:xnack-",
    }


PASS_HOST_TENSOR = """
import torch, triton, triton.language as tl
@triton.jit
def fill(target, block: tl.constexpr):
    tl.store(target + tl.arange(0, block), 1.0)
for device in ("cuda", "cpu"):
    target = torch.zeros(16, device=device)
    fill[(1,)](target, 16)
    print(device, target.sum().item())
"""


def test_discrete_device_refuses_a_host_tensor(tmp_path: Path) -> None:
    program = tmp_path / "program.py"  # Triton reads a kernel's source from its file
    program.write_text(PASS_HOST_TENSOR)

    unified, discrete = emulate(program), emulate(program, options=("--discrete",))

    assert unified.stdout.split() == ["cuda", "16.0", "cpu", "16.0"]
    assert discrete.stdout.split() == ["cuda", "16.0"]
    assert "cpu tensor" in discrete.stderr
