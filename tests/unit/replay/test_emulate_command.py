"""The emulate command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "asmevo", "emulate", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_emulate_passes_the_exit_code_and_the_environment_on() -> None:
    code = "import os, sys; print(os.environ['ASMEVO_EMULATOR_THREADS']); sys.exit(7)"

    done = run("--threads", "3", "--", sys.executable, "-c", code)

    assert (done.returncode, done.stdout, done.stderr) == (7, "3\n", "")


def test_emulate_without_a_program_is_a_usage_error() -> None:
    done = run("--threads", "1", "--")

    assert done.returncode == 2
    assert "CMD" in done.stderr


def test_emulate_of_a_file_that_is_no_program_says_so_in_one_line(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)

    done = run("--", str(program))

    assert done.returncode == 2
    assert done.stderr == f"asmevo: cannot start {program}: Exec format error\n"


def test_emulate_of_a_missing_program_says_so_in_one_line() -> None:
    done = run("--", "/no/such/program")

    assert done.returncode == 2
    assert "'/no/such/program' was not found" in done.stderr
    assert done.stderr.count("\n") == 1


def test_emulate_with_an_unknown_chip_lists_the_known_ones() -> None:
    done = run("--chip", "h100", "--", "true")

    assert done.returncode == 2
    assert "mi300x" in done.stderr
