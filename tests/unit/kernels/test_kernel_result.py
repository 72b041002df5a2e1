"""A case passes only if its kernels ran on the device and something was compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from kernel_case import ARCHES, Case
from kernel_result import Launch, Outcome, judge, parse_launches
from kernel_table import format_table

LOG = """some warning
asmevo emulated device: launch of add_kernel: grid 4,1,1 block 256,1,1, 120 wave instructions, 9 modelled cycles
asmevo emulated device: launch of _dot.kernel: grid 1,1,1 block 64,1,1, 7 wave instructions, 3 modelled cycles
asmevo emulated device: launch of add_kernel: grid 4,1,1 block 256,1,1, 130 wave instructions, 9 modelled cycles
"""  # noqa: E501
NAMED_BY_CONSTANTS = Launch(kernel="add_kernel_BLOCK_64", launches=1, wave_instructions=9)
OTHER = Launch(kernel="add_kernel_stage1", launches=1, wave_instructions=9)
ADD = Launch(kernel="add_kernel", launches=2, wave_instructions=250)
GOOD: dict[str, Any] = {"name": "out", "is_within": True, "is_equal": True, "difference": ""}
BAD = GOOD | {"is_within": False, "is_equal": False, "difference": "3 of 4 elements differ"}


def make_case() -> Case:
    return Case(
        name="add",
        library="vllm",
        wrapper="vllm.ops:add",
        kernels=("add_kernel",),
        shapes="1000",
        dtype=torch.float32,
        arches=ARCHES,
        is_fast=False,
        finding="",
        function=lambda trial: None,
    )


def test_parse_launches_log_of_the_device_is_summed_by_kernel() -> None:
    dot = Launch(kernel="_dot.kernel", launches=1, wave_instructions=7)

    assert parse_launches(LOG) == (ADD, dot)


@pytest.mark.parametrize(
    ("exit_code", "written", "launches", "reason"),
    [
        (0, {"error": "", "comparisons": [GOOD]}, (ADD,), ""),
        (0, {"error": "", "comparisons": [GOOD]}, (), "not launched: add_kernel"),
        (0, {"error": "", "comparisons": [GOOD]}, (NAMED_BY_CONSTANTS,), ""),
        (0, {"error": "", "comparisons": [GOOD]}, (OTHER,), "not launched: add_kernel"),
        (0, {"error": "", "comparisons": []}, (ADD,), "nothing was compared"),
        (0, {"error": "", "comparisons": [GOOD, BAD]}, (ADD,), "out: 3 of 4 elements differ"),
        (0, {"error": "no wrapper", "comparisons": [GOOD]}, (ADD,), "no wrapper"),
        (-11, {"error": "", "comparisons": [GOOD]}, (ADD,), "exit code -11"),
        (-9, None, (ADD,), "the child ended with exit code -9 and no result"),
    ],
)
def test_judge_case_passes_only_with_launch_and_comparison(
    exit_code: int, written: dict[str, Any] | None, launches: tuple[Launch, ...], reason: str
) -> None:
    assert judge(make_case(), exit_code, written, launches) == reason


def test_outcome_written_and_read_is_the_same(tmp_path: Path) -> None:
    outcome = Outcome(
        case="vllm.add.float32",
        arch="gfx942",
        key="k",
        reason="",
        seconds=1.5,
        launches=(ADD,),
        comparisons=(GOOD,),
    )
    path = tmp_path / "result.json"
    path.write_text(outcome.to_json())

    assert Outcome.read(path) == outcome


def test_table_failed_case_does_not_count_as_verified() -> None:
    good, bad = (
        Outcome(
            case="vllm.add.float32",
            arch=arch,
            key="k",
            reason=reason,
            seconds=1.0,
            launches=(ADD,),
            comparisons=(GOOD,),
        )
        for arch, reason in (("gfx942", ""), ("gfx950", "out: wrong"))
    )

    text = format_table([(make_case(), good), (make_case(), bad)], source="today")

    assert "Kernels of different names verified: 1 on gfx942, 0 on gfx950." in text
    assert "| 1000 | float32 | exact | **failed** |" in text
    assert "* vllm.add.float32, gfx950: out: wrong" in text
