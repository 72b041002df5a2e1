from __future__ import annotations

import json
import subprocess
import sys

import pytest

_COMMANDS = (
    ("doctor",),
    ("emulate",),
    ("capture", "attach"),
    ("bundle", "show"),
    ("bundle", "verify"),
    ("replay",),
    ("recover",),
    ("rebuild",),
    ("optimize",),
    ("swap", "pack"),
    ("swap", "run"),
    ("swap", "status"),
)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "asmevo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("command", _COMMANDS, ids=" ".join)
def test_help_of_every_command_answers(command: tuple[str, ...]) -> None:
    done = _run(*command, "--help")

    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, asmevo.cli;"
        "heavy = {'frida', 'hip', 'numpy', 'torch', 'triton', 'zstandard', 'elftools', 'msgpack'};"
        "print(sorted(heavy & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.strip() == "[]"


def test_unknown_command_is_a_usage_error_without_traceback() -> None:
    done = _run("no-such-command")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_doctor_json_names_every_check_and_a_fix_for_each_problem() -> None:
    done = _run("doctor", "--json")

    checks = json.loads(done.stdout)["checks"]
    assert done.returncode in (0, 4), done.stderr
    assert {"Python", "emulated device", "frida", "attach rights"} <= {c["name"] for c in checks}
    assert all(check["fix"] for check in checks if check["problem"])
