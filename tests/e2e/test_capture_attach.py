"""Capture from a live process on the emulated device, through Frida."""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from asmevo.capture.bundle import Moment, open_bundle
from asmevo.codeobject import toolchain
from asmevo.replay.device import Device

HERE = Path(__file__).parent
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17


class Program:
    """`capture_target.py` with some threads, over two code objects that define one kernel name."""

    def __init__(self, objects: list[Path], threads: int) -> None:
        command = [
            sys.executable,
            str(HERE / "capture_target.py"),
            str(threads),
            *map(str, objects),
        ]
        self.process = subprocess.Popen(
            command,
            env=Device.emulated(threads=1).environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    @property
    def maps(self) -> str:
        return Path(f"/proc/{self.process.pid}/maps").read_text()

    def finish(self) -> int:
        """End it; the number of launches, all of which were right."""
        output, _ = self.process.communicate("", timeout=30)
        launches, wrong = map(int, output.split())
        assert (wrong, self.process.returncode) == (0, 0)
        return launches


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("objects")
    text = (HERE.parent / "fixtures" / "scale.s").read_text()
    variants = [text, text.replace("  s_endpgm", "  s_nop 0\n  s_endpgm")]
    paths = []
    for index, variant in enumerate(variants):
        paths.append(folder / f"{index}.hsaco")
        paths[-1].write_bytes(toolchain.link(toolchain.assemble(variant, "gfx942")))
    return paths


@pytest.fixture
def program(objects: list[Path]) -> Iterator[Program]:
    program = Program(objects, threads=4)
    yield program
    if program.process.poll() is None:
        assert program.finish() > 0


def start_capture(pid: int, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "asmevo", "capture", "attach", str(pid), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def capture(pid: int, *arguments: str) -> tuple[int, str, str]:
    process = start_capture(pid, *arguments)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


def test_attach_to_threads_captures_each_code_object_before_and_after(
    program: Program, objects: list[Path], tmp_path: Path
) -> None:
    images = [path.read_bytes() for path in objects]
    x = array.array("f", map(float, range(256))).tobytes()

    code, output, errors = capture(
        program.process.pid, "--kernel", "sc*", "--count", "3", "-o", str(tmp_path), "--json"
    )

    assert code == 0, errors
    bundles = [Path(item["path"]) for item in json.loads(output)["bundles"]]
    assert len(bundles) == 6
    found = []
    for path in bundles:
        with open_bundle(path) as bundle:
            bundle.verify()
            dispatch = bundle.manifest.dispatch
            out, source = bundle.manifest.regions
            factor = struct.unpack_from("=f", bundle.kernarg(), 16)[0]
            expected = array.array("f", (i * factor for i in range(256))).tobytes()
            assert (dispatch.kernel, dispatch.grid, dispatch.block) == (
                "scale",
                (4, 1, 1),
                (64, 1, 1),
            )
            assert dispatch.arch.startswith("gfx942")
            assert bundle.kernarg()[:16] == struct.pack("=QQ", out.address, source.address)
            assert bundle.region_bytes(source, Moment.BEFORE) == x
            assert bundle.region_bytes(source, Moment.AFTER) == x
            assert bundle.region_bytes(out, Moment.BEFORE) == bytes(1024)
            assert bundle.region_bytes(out, Moment.AFTER) == expected
            # Threads of even factor run the first object: the handle told which one it was.
            assert bundle.code_object() == images[int(factor) % 2]
            found.append(int(factor) % 2)
    assert sorted(found) == [0, 0, 0, 1, 1, 1]
    assert "frida-agent" not in program.maps


def test_glob_without_a_match_lists_kernels_seen_and_fails(
    program: Program, tmp_path: Path
) -> None:
    code, output, errors = capture(
        program.process.pid, "--kernel", "no_such_*", "--timeout", "0.5", "-o", str(tmp_path)
    )

    assert (code, output) == (1, "")
    assert errors.splitlines() == [
        "asmevo: no kernel matched no_such_* (kernels seen: scale)",
    ]
    assert list(tmp_path.iterdir()) == []
    assert program.finish() > 0


def test_capture_that_got_too_few_says_so_in_its_json(program: Program, tmp_path: Path) -> None:
    arguments = ("--count", "1000000", "--timeout", "5", "-o", str(tmp_path), "--json")

    code, output, errors = capture(program.process.pid, *arguments)

    result = json.loads(output)
    assert code == 0, errors
    assert [one["kernel"] for one in result["incomplete"]] == ["scale", "scale"]
    assert sum(one["taken"] for one in result["incomplete"]) == len(result["bundles"])


def wait_until_hooked(program: Program) -> None:
    """Until a capture has opened its session and whoever injected the agent is gone again."""
    deadline = time.monotonic() + 20
    status = Path(f"/proc/{program.process.pid}/status")
    while "asmevo-capture" not in program.maps and time.monotonic() < deadline:
        time.sleep(0.05)
    while "TracerPid:\t0\n" not in status.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)


def test_second_capture_is_refused_and_leaves_the_first_alone(
    program: Program, tmp_path: Path
) -> None:
    pid = program.process.pid
    first = start_capture(pid, "--kernel", "none", "--timeout", "60", "-o", str(tmp_path))
    wait_until_hooked(program)

    code, _, errors = capture(pid, "--kernel", "scale", "-o", str(tmp_path))
    is_first_there = first.poll() is None and "asmevo-capture" in program.maps
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)

    assert is_first_there
    assert (code, errors) == (
        1,
        f"asmevo: process {pid}: another capture of this process is running\n",
    )


def test_capture_beside_one_that_is_still_attaching_is_refused_before_it_touches_the_target(
    program: Program, tmp_path: Path
) -> None:
    pid = program.process.pid
    with Path(f"/proc/{pid}/status").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = start_capture(pid, "-o", str(tmp_path))
        while process.poll() is None:
            assert "frida" not in program.maps
            time.sleep(0.01)
        _, errors = process.communicate()

    assert (process.returncode, errors) == (
        1,
        f"asmevo: process {pid}: another capture of this process is running\n",
    )


def test_target_that_exits_during_the_capture_ends_it(program: Program, tmp_path: Path) -> None:
    process = start_capture(program.process.pid, "--kernel", "none", "-o", str(tmp_path))
    wait_until_hooked(program)

    assert program.finish() > 0
    _, errors = process.communicate(timeout=60)

    assert (process.returncode, errors) == (
        1,
        f"asmevo: process {program.process.pid} ended during the capture\n",
    )


def test_controller_killed_leaves_a_target_that_can_be_captured_again(
    program: Program, tmp_path: Path
) -> None:
    pid = program.process.pid
    killed = start_capture(pid, "--kernel", "no_such", "-o", str(tmp_path))
    wait_until_hooked(program)

    killed.kill()
    killed.communicate()
    deadline = time.monotonic() + 20
    while "frida-agent" in program.maps and time.monotonic() < deadline:
        time.sleep(0.05)
    code, _, errors = capture(pid, "--kernel", "scale", "-o", str(tmp_path))

    assert code == 0, errors
    assert program.finish() > 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_capture_lets_go_of_the_target(
    program: Program, tmp_path: Path, number: int, code: int
) -> None:
    process = start_capture(program.process.pid, "--kernel", "no_such", "-o", str(tmp_path))
    wait_until_hooked(program)

    process.send_signal(number)
    _, errors = process.communicate(timeout=30)

    assert process.returncode == code
    assert errors == ("asmevo: interrupted\n" if number == signal.SIGINT else "")
    assert "frida-agent" not in program.maps
    assert program.finish() > 0


def test_process_without_hip_is_refused_untouched(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])

    code, _, errors = capture(process.pid, "-o", str(tmp_path))
    is_running = process.poll() is None
    process.kill()
    process.wait()

    assert is_running
    assert code == 1
    assert "not a HIP process" in errors
    assert len(errors.splitlines()) == 1


def test_process_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()

    code, _, errors = capture(process.pid, "-o", str(tmp_path))

    assert (code, errors) == (1, f"asmevo: there is no process {process.pid}\n")


def test_process_under_a_debugger_is_refused(program: Program, tmp_path: Path) -> None:
    libc, pid = ctypes.CDLL(None), program.process.pid
    if libc.ptrace(PTRACE_SEIZE, pid, None, None) != 0:
        pytest.skip("ptrace is not allowed here")
    code, _, errors = capture(pid, "-o", str(tmp_path))
    libc.ptrace(PTRACE_INTERRUPT, pid, None, None)
    libc.waitpid(pid, None, 0)
    libc.ptrace(PTRACE_DETACH, pid, None, None)

    assert code == 1
    assert "is being traced by process" in errors
    assert program.finish() > 0


def test_heaviest_kernels_are_captured_once_for_each_shape(
    program: Program, tmp_path: Path
) -> None:
    code, output, errors = capture(
        *(program.process.pid, "--top", "1", "--watch", "500ms", "--shapes", "--for", "8s"),
        *("-o", str(tmp_path), "--json"),
    )

    assert code == 0, errors
    factors = []
    for item in json.loads(output)["bundles"]:
        with open_bundle(Path(item["path"])) as bundle:
            assert bundle.manifest.dispatch.kernel == "scale"
            factors.append(struct.unpack_from("=f", bundle.kernarg(), 16)[0])
    assert sorted(factors) == [2.0, 3.0, 4.0, 5.0]  # each thread has one of its own
