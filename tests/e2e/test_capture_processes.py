"""Captures from the first launch, of process trees, and by weight, on the emulated device."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asmevo.capture.bundle import open_bundle
from asmevo.codeobject import toolchain
from asmevo.replay.device import Device

HERE = Path(__file__).parent
PROGRAM = HERE / "capture_target.py"

# Starts one worker by fork and exec and one by subprocess, as servers do; both end with its stdin.
# The first loads HIP a while after its start.
SERVER = """
import os, subprocess, sys
command = [sys.executable, *sys.argv[1:]]
late = (
    "import runpy, sys, time; time.sleep(1.5); sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
reader, writer = os.pipe()
pid = os.fork()
if pid == 0:
    os.dup2(reader, 0)
    os.close(writer)
    os.execv(sys.executable, [sys.executable, "-c", late, *sys.argv[1:]])
worker = subprocess.Popen(command, stdin=subprocess.PIPE)
print("started", flush=True)
sys.stdin.read()
os.close(writer)
worker.communicate(b"")
_, status = os.waitpid(pid, 0)
sys.exit(worker.returncode or os.waitstatus_to_exitcode(status))
"""


@pytest.fixture(scope="module")
def scale(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("object") / "scale.hsaco"
    text = (HERE.parent / "fixtures" / "scale.s").read_text()
    path.write_bytes(toolchain.link(toolchain.assemble(text, "gfx942")))
    return path


def start(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        env=Device.emulated(threads=1).environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def asmevo(*arguments: str) -> tuple[int, str, str]:
    process = start(sys.executable, "-m", "asmevo", *arguments)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


@pytest.fixture
def server(scale: Path) -> Iterator[subprocess.Popen[str]]:
    process = start(sys.executable, "-c", SERVER, str(PROGRAM), "1", str(scale))
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    yield process
    output, errors = process.communicate("", timeout=60)
    assert process.returncode == 0, errors
    counts = [line.split() for line in output.splitlines() if line != "ready"]
    assert [wrong for _, wrong in counts] == ["0", "0"]


def bundles_of(output: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(output)["bundles"]
    for item in found:
        with open_bundle(Path(item["path"])) as bundle:
            bundle.verify()
            assert bundle.manifest.capture.pid == item["pid"]
    return found


def test_program_that_hardly_launches_is_captured_from_its_start(
    scale: Path, tmp_path: Path
) -> None:
    command = [sys.executable, str(PROGRAM), "1", str(scale)]

    code, output, errors = asmevo("capture", "run", "-o", str(tmp_path / "out"), "--", *command)

    assert code == 0, errors
    ready, counts = output.splitlines()  # the program's own
    launches, wrong = map(int, counts.split())
    assert (ready, wrong) == ("ready", 0)
    assert 1 <= launches < 50  # its stdin was at its end: mostly one, more on a busy machine
    (path,) = (tmp_path / "out").rglob("*.aeb")
    assert errors.startswith(f"Wrote {path} ")
    assert path.parent.name.endswith("-device0")
    with open_bundle(path) as bundle:
        bundle.verify()


def test_program_without_hip_runs_on_and_leaves_no_folder(tmp_path: Path) -> None:
    code, output, errors = asmevo(
        "capture", "run", "-o", str(tmp_path / "out"), "--", "echo", "hello"
    )

    assert (code, output) == (1, "hello\n")
    assert errors.startswith("asmevo: no kernel matched *: the process launched none")
    assert not (tmp_path / "out").exists()


def test_started_server_is_captured_in_all_its_processes(scale: Path, tmp_path: Path) -> None:
    process = start(
        *(sys.executable, "-m", "asmevo", "capture", "run", "--json", "-o", str(tmp_path), "--"),
        *(sys.executable, "-c", SERVER, str(PROGRAM), "1", str(scale)),
    )
    assert process.stdin is not None
    deadline = time.monotonic() + 60
    while len(list(tmp_path.rglob("*.aeb"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    output, errors = process.communicate("", timeout=60)

    assert process.returncode == 0, errors
    found = bundles_of(output[output.index("{") :])
    assert len({item["pid"] for item in found}) == 2


def test_children_are_captured_also_when_they_load_hip_later(
    server: subprocess.Popen[str], tmp_path: Path
) -> None:
    code, output, errors = asmevo(
        *("capture", "attach", str(server.pid), "--children", "--for", "8s", "--count", "2"),
        *("-o", str(tmp_path), "--json"),
    )

    assert code == 0, errors
    found = bundles_of(output)
    assert len({item["pid"] for item in found}) == 2
    assert server.pid not in {item["pid"] for item in found}
    folders = {Path(item["path"]).parent.name for item in found}
    assert folders == {f"{item['pid']}-device0" for item in found}


def test_list_shows_launches_shapes_and_time_of_a_tree(server: subprocess.Popen[str]) -> None:
    time.sleep(3)  # until both have loaded HIP

    code, output, errors = asmevo(
        "capture", "list", str(server.pid), "--children", "--for", "1s", "--json"
    )

    assert code == 0, errors
    processes = json.loads(output)["processes"]
    assert len(processes) == 2
    for process in processes:
        (kernel,) = process["kernels"]
        assert kernel["kernel"] == "scale"
        assert kernel["launches"] > 50
        assert kernel["timed"] >= 4
        assert kernel["mean_us"] > 0
        assert (kernel["share_of_launches"], kernel["share_of_time"]) == (1.0, 1.0)
        assert kernel["shapes"][0]["grid"] == [4, 1, 1]


def test_attach_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        code, _, errors = asmevo(
            "capture", "attach", str(process.pid), "-o", str(tmp_path / "a" / "b")
        )
    finally:
        process.kill()
        process.wait()

    assert (code, len(errors.splitlines())) == (1, 1)
    assert list(tmp_path.iterdir()) == []
