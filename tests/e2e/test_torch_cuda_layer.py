"""Every public name of torch.cuda works or refuses by name, as docs/torch-cuda.md says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "torch-cuda.md"
TIME_LIMIT_S = 300

pytestmark = pytest.mark.triton


def run_on_device(program: str, *, warnings: str = "ignore") -> Any:
    """Run a program of this folder on the emulated device and read the JSON that it prints."""
    pytest.importorskip("triton", reason="needs torch and triton")
    done = subprocess.run(
        [sys.executable, "-m", "asmevo", "emulate", "--", sys.executable, HERE / program],
        env={**os.environ, "PYTHONWARNINGS": warnings, "TRITON_DEFAULT_FP_FUSION": "1"},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def read_table(title: str) -> set[str]:
    """The names in the first column of a section's table."""
    section = PAGE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


@pytest.fixture(scope="module")
def outcomes() -> Any:
    return run_on_device("torch_cuda_calls.py")


def test_page_lists_every_public_name_once(outcomes: Any) -> None:
    covered, refused = read_table("Covered"), read_table("Refused")

    assert covered | refused == set(outcomes["public"])
    assert not covered & refused


def test_page_says_covered_what_is_called_as_covered(outcomes: Any) -> None:
    assert read_table("Covered") == set(outcomes["covered"])
    assert read_table("Refused") == set(outcomes["refused"]) | set(outcomes["types"])


def test_covered_functions_do_what_their_call_expects(outcomes: Any) -> None:
    failures = {name: text for name, text in outcomes["covered"].items() if text != "True"}

    assert failures == {}


def test_refused_functions_raise_one_error_with_a_name(outcomes: Any) -> None:
    pattern = re.compile(r"NotCoveredError: (torch\.\S+) is not covered by torch on asmevo's")
    wrong = {n: text for n, text in outcomes["refused"].items() if not pattern.match(text)}

    assert wrong == {}
    assert all("not available" in text for text in outcomes["types"].values())


def test_bindings_of_torchs_stub_file_all_exist() -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    from asmevo.replay.torch_device.cuda import bindings

    stub = (Path(torch.__file__).parent / "_C" / "__init__.pyi").read_text()
    wanted = set(re.findall(r"^def (_(?:cuda|nccl|cudnn)_\w+)", stub, re.MULTILINE))
    wanted |= set(re.findall(r"^class (_(?:CUDA|Cuda)\w+)", stub, re.MULTILINE))
    # Torch's own code asks for more than its stub file lists.
    for path in (Path(torch.__file__).parent / "cuda").glob("*.py"):
        wanted |= set(re.findall(r"torch\._C\.(_(?:cuda|nccl)_\w+)", path.read_text()))
    missing = {name for name in wanted if not hasattr(torch._C, name)} - set(bindings())

    assert len(wanted) >= 100
    assert missing == set()


@pytest.fixture(scope="module")
def graphs() -> Any:
    return run_on_device("torch_graph_program.py")


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("mix_launches_and_operations", [1003.0, 203.0]),
        ("write_in_place", [1.0, 3.0]),
        ("write_to_out", [0.0, 2.0]),
        ("keep_running_statistics", [0.0, 1.0]),
        ("copy_from_host", [7.0]),
        ("free_memory_of_graph", [8000, 8000, 0]),
        ("replay_after_failure", [1003.0, 203.0]),
        ("graph_a_module", 0.0),
    ],
)
def test_graph_replays_what_was_captured(graphs: Any, case: str, expected: Any) -> None:
    assert graphs[case] == expected


def test_graph_refuses_what_waits_for_the_device(graphs: Any) -> None:
    assert graphs["read_item_in_capture"].startswith("900: HIP error")
    assert "_local_scalar_dense" in graphs["read_item_in_capture"]


def test_graph_raises_what_an_operation_throws_at_replay(graphs: Any) -> None:
    assert "index out of range" in graphs["fail_at_replay"]


@pytest.mark.parametrize(
    ("chip", "expected"),
    [
        ("mi210", ["AMD Instinct MI210", [9, 0], ["gfx90a"], 104, 65536]),
        ("mi355x", ["AMD Instinct MI355X", [9, 5], ["gfx950"], 256, 163840]),
    ],
)
def test_properties_are_those_of_the_chip(chip: str, expected: list[Any]) -> None:
    pytest.importorskip("torch", reason="needs torch")
    program = (
        "import json, torch; c = torch.cuda; p = c.get_device_properties(0);"
        "print(json.dumps([p.name, c.get_device_capability(), c.get_arch_list(),"
        "p.multi_processor_count, p.shared_memory_per_block]))"
    )
    command = [sys.executable, "-m", "asmevo", "emulate", "--chip", chip, "--", sys.executable]

    output = subprocess.check_output([*command, "-c", program], timeout=TIME_LIMIT_S)

    assert json.loads(output) == expected


def test_rest_of_torch_knows_the_device() -> None:
    results = run_on_device("torch_around_cuda.py")

    assert results.pop("widen_softmax") < 1e-3
    assert [name for name, result in results.items() if result is not True] == []
    assert len(results) == 12
