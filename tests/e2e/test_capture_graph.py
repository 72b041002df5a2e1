"""Capture of kernels that a live process runs in graphs, on the emulated device."""

from __future__ import annotations

import array
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asmevo.capture.bundle import Moment, open_bundle
from asmevo.codeobject import toolchain
from asmevo.replay.device import Device

HERE = Path(__file__).parent


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    path = tmp_path / "scale.hsaco"
    text = (HERE.parent / "fixtures" / "scale.s").read_text()
    path.write_bytes(toolchain.link(toolchain.assemble(text, "gfx942")))
    process = subprocess.Popen(
        [sys.executable, str(HERE / "capture_graph_target.py"), str(path)],
        env=Device.emulated(threads=1).environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    output, _ = process.communicate("", timeout=60)
    launches, wrong = map(int, output.split())
    assert launches > 0
    assert (wrong, process.returncode) == (0, 0)


def asmevo(*arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "asmevo", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return result.returncode, result.stdout, result.stderr


def test_kernels_of_graphs_are_captured_node_by_node(
    program: subprocess.Popen[str], tmp_path: Path
) -> None:
    code, output, errors = asmevo(
        *("capture", "attach", str(program.pid), "--graph", "--count", "3"),
        *("-o", str(tmp_path / "out"), "--json"),
    )

    assert code == 0, errors
    result = json.loads(output)
    assert len(result["bundles"]) == 3
    nodes = set()
    for item in result["bundles"]:
        with open_bundle(Path(item["path"])) as bundle:
            bundle.verify()
            dispatch = bundle.manifest.dispatch
            node = dispatch.graph_node
            nodes.add(node)
            assert dispatch.launch_function == "hipGraphLaunch"
            assert node in (0, 1, 2)
            out, source = bundle.manifest.regions
            expected = [array.array("f", (i * 2.0**n for i in range(256))) for n in range(4)]
            assert bundle.region_bytes(source, Moment.BEFORE) == expected[node].tobytes()
            assert bundle.region_bytes(out, Moment.BEFORE) == bytes(1024)
            assert bundle.region_bytes(out, Moment.AFTER) == expected[node + 1].tobytes()
    assert len(nodes) > 1


def test_graphs_are_listed_and_what_was_skipped_is_said(
    program: subprocess.Popen[str], tmp_path: Path
) -> None:
    code, output, errors = asmevo("capture", "list", str(program.pid), "--for", "1500ms", "--json")
    refused, _, why = asmevo(
        "capture", "attach", str(program.pid), "--timeout", "3", "-o", str(tmp_path / "out")
    )

    assert code == 0, errors
    (kernel,) = json.loads(output)["processes"][0]["kernels"]
    assert kernel["graph_launches"] > 3 * 20
    assert refused == 1
    assert "--graph captures them there" in why
    assert "--enforce-eager" in why
