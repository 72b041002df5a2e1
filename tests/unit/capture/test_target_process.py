from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asmevo.capture.target_process import ProcessMemory, find_target, has_frida_agent, is_running
from asmevo.errors import TargetError

STATIC_PROGRAM = """
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
int main(int argc, char** argv) {
    (void)argc;
    mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open(argv[1], O_RDONLY), 0);
    puts("ready");
    fflush(stdout);
    return getchar() == 0;
}
"""


@pytest.fixture
def hip_process(stub_hip: Path) -> Iterator[subprocess.Popen[str]]:
    program = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('ready', flush=True); input()"
    process = start([sys.executable, "-c", program, str(stub_hip)])
    yield process
    process.communicate("\n")


def start(command: list[str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_hip_process_is_accepted(hip_process: subprocess.Popen[str], stub_hip: Path) -> None:
    target = find_target(hip_process.pid)

    assert (target.pid, target.hip_paths) == (hip_process.pid, (str(stub_hip),))
    assert target.command[:2] == (sys.executable, "-c")
    assert is_running(hip_process.pid)
    assert not has_frida_agent(hip_process.pid)


def test_stopped_process_is_refused(hip_process: subprocess.Popen[str]) -> None:
    hip_process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, hip_process.pid, os.WSTOPPED | os.WNOWAIT)

    try:
        with pytest.raises(TargetError, match="is stopped"):
            find_target(hip_process.pid)
    finally:
        hip_process.send_signal(signal.SIGCONT)


def test_process_that_is_no_hip_process_is_refused() -> None:
    process = subprocess.Popen(["sleep", "60"])

    try:
        with pytest.raises(TargetError, match=r"has no libamdhip64\.so loaded"):
            find_target(process.pid)
    finally:
        process.kill()
        process.wait()


def test_static_process_is_refused(stub_hip: Path, tmp_path: Path) -> None:
    source, program = tmp_path / "static.c", tmp_path / "static"
    source.write_text(STATIC_PROGRAM)
    compiler = os.environ.get("CC", "cc").split()
    built = subprocess.run(
        [*compiler, "-static", str(source), "-o", str(program)], capture_output=True, check=False
    )
    if built.returncode != 0:
        pytest.skip("no static C library here")
    process = start([str(program), str(stub_hip)])

    with pytest.raises(TargetError, match="statically linked: attaching would end it"):
        find_target(process.pid)

    process.communicate("\n")


def test_process_that_has_ended_is_refused() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie now

    with pytest.raises(TargetError, match="has ended already"):
        find_target(process.pid)
    assert not is_running(process.pid)
    process.wait()
    with pytest.raises(TargetError, match=f"there is no process {process.pid}"):
        find_target(process.pid)


@pytest.mark.parametrize("pid", [-1, 0, 1 << 40])
def test_number_that_is_no_process_is_refused(pid: int) -> None:
    with pytest.raises(TargetError, match="there is no process"):
        find_target(pid)


def test_capturing_oneself_is_refused() -> None:
    with pytest.raises(TargetError, match="cannot capture itself"):
        find_target(os.getpid())


def test_memory_of_a_process_is_read_within_its_mappings() -> None:
    memory = ProcessMemory(os.getpid())
    text = ctypes.create_string_buffer(b"hello")
    address = ctypes.addressof(text)

    assert memory.read(address, 5) == b"hello"
    assert memory.read_string(address, 100) == "hello"
    assert memory.read_some(16, 8) == b""
    for bad_address, size in ((16, 8), (0, 1), (-5, 1), (1 << 64, 1), (address, 1 << 40)):
        with pytest.raises(TargetError):
            memory.read(bad_address, size)
    with pytest.raises(TargetError):
        memory.read_string(16, 100)
    memory.close()
