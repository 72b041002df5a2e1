"""The whole flow on a live server: what scripts/demo says is checked on what it left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from asmevo.capture.bundle import open_bundle
from asmevo.codeobject.code_object import CodeObject
from asmevo.replay.device import Device
from asmevo.replay.engine import replay
from asmevo.verdict import Status

pytestmark = pytest.mark.triton
_ROOT = Path(__file__).parents[2]
_KERNELS = {
    "softmax_kernel",
    "add_rms_norm_kernel",
    "matmul_kernel",
    "merge_attn_states_kernel",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    folder: Path
    rows: dict[str, Any]

    def run_folder(self, kernel: str) -> Path:
        return self.folder / "runs" / kernel


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> _Job:
    folder = tmp_path_factory.mktemp("job")
    command = [sys.executable, str(_ROOT / "scripts" / "demo.py"), "-o", str(folder), "--json"]
    done = subprocess.run(
        [*command, "--candidates", "24"], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    return _Job(folder=folder, rows=json.loads(done.stdout))


def test_main_job_reports_every_kernel_with_its_dispatches_and_candidates(job: _Job) -> None:
    assert set(job.rows) == _KERNELS
    for row in job.rows.values():
        assert len(row["bundles"]) == 2
        assert row["tried"] > len(row["rejected"])
        assert row["modelled_cycles_after"] < row["modelled_cycles_before"]


def test_main_job_bundles_are_private_and_of_different_dispatches(job: _Job) -> None:
    bundles = sorted((job.folder / "bundles").glob("*.aeb"))

    assert len(bundles) == 2 * len(_KERNELS)
    assert all(os.stat(bundle).st_mode & 0o777 == 0o600 for bundle in bundles)


@pytest.mark.parametrize("kernel", sorted(_KERNELS))
def test_main_job_committed_object_differs_in_code_only_and_does_the_same(
    job: _Job, kernel: str
) -> None:
    run = job.run_folder(kernel)
    k0, best = (CodeObject.read((run / name).read_bytes()) for name in ("k0.hsaco", "best.hsaco"))
    bundle_path = Path(job.rows[kernel]["bundles"][0])
    with open_bundle(bundle_path) as bundle:
        assert bundle.code_object() == (run / "k0.hsaco").read_bytes()

    result = replay(
        bundle_path, [run / "best.hsaco"], device=Device.parse("emulated:mi300x"), timeout_s=60
    )

    assert k0.text.data != best.text.data
    assert k0.metadata == best.metadata
    assert result.verdict.has_passed, result.verdict
    assert result.candidates[0].comparisons[0].bytes_compared > 0


def test_main_job_wrong_candidate_is_divergent_with_both_values(job: _Job) -> None:
    bundle = Path(job.rows["softmax_kernel"]["bundles"][0])
    wrong = job.folder / "recovered" / "softmax_kernel.wrong.hsaco"

    result = replay(bundle, [wrong], device=Device.parse("emulated:mi300x"), timeout_s=60)

    (candidate,) = result.candidates
    assert candidate.verdict.status is Status.DIVERGENT
    first = next(c.first_difference for c in candidate.comparisons if c.first_difference)
    assert first.expected != first.actual
    assert f"{first.address:#x}" in candidate.verdict.reasons[0]


def test_main_job_attempts_log_names_every_verdict(job: _Job) -> None:
    for kernel, row in job.rows.items():
        lines = (job.run_folder(kernel) / "attempts.jsonl").read_text().splitlines()
        verdicts = [json.loads(line)["verdict"]["status"] for line in lines]

        assert len(verdicts) == row["tried"]
        assert set(verdicts) <= {status.value for status in Status}
        assert verdicts.count("passed") >= 1


def test_main_job_swap_log_says_what_was_swapped_and_what_was_kept(job: _Job) -> None:
    logs = {
        name: "\n".join(path.read_text() for path in (job.folder / name / "log").glob("*.log"))
        for name in ("swap", "damaged")
    }

    assert logs["swap"].count(" swapped ") == len(_KERNELS)
    assert " kept " not in logs["swap"]
    assert logs["damaged"].count(" kept ") == 2
    assert "SHA-256 differs" in logs["damaged"]
    assert "No such file" in logs["damaged"]
