from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import asmevo
from asmevo.cli import app


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "asmevo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def _walk(group: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name, command in group.commands.items():
        is_group = hasattr(command, "commands")
        found |= _walk(command, (*path, name)) if is_group else {(*path, name): command}
    return found


_COMMANDS = _walk(typer.main.get_command(app))


@pytest.mark.parametrize("path", _COMMANDS, ids=" ".join)
def test_help_of_a_command_has_the_house_style(path: tuple[str, ...]) -> None:
    command = _COMMANDS[path]
    summary, *paragraphs = command.help.split("\n\n")

    assert len(summary) <= 72
    assert not summary.endswith(".")
    for option in command.params:
        assert option.help
        assert not option.help.endswith(".")
    for example in paragraphs[-2:]:
        words = shlex.split(example)
        assert tuple(words[: len(path) + 1]) == ("asmevo", *path)
        with command.make_context(" ".join(path), words[len(path) + 1 :]):
            pass


@pytest.mark.parametrize("path", _COMMANDS, ids=" ".join)
def test_help_of_a_command_answers(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*path, "--help"])

    assert result.exit_code == 0
    assert "Usage" in result.output


@pytest.mark.parametrize("option", ["--output", "--force", "--json", "--device", "--timeout"])
def test_option_of_one_name_is_spelled_alike_everywhere(option: str) -> None:
    spellings = {
        tuple(sorted(parameter.opts))
        for command in _COMMANDS.values()
        for parameter in command.params
        if option in parameter.opts
    }

    assert len(spellings) == 1


@pytest.mark.parametrize("timeout", ["inf", "nan", "-1", "1e300"])
@pytest.mark.parametrize("command", ["replay", "optimize", "capture attach"])
def test_timeout_that_no_clock_can_count_is_a_usage_error(command: str, timeout: str) -> None:
    arguments = [*command.split(), "1", "-o", "out", "--timeout", timeout]
    if command == "replay":
        arguments = ["replay", "1", "--timeout", timeout]

    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 2
    assert "--timeout" in result.output


def test_version_is_the_package_version() -> None:
    assert _run("--version").stdout == f"asmevo {asmevo.__version__}\n"


def test_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    hsaco = tmp_path / "empty.hsaco"
    hsaco.touch()

    done = _run("recover", str(hsaco), "-o", str(tmp_path), "--force")

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


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


def test_error_with_a_hostile_name_lets_no_control_characters_through(tmp_path: Path) -> None:
    hostile = tmp_path / "\x1b[2Jkernel"
    hostile.touch()

    done = _run("recover", str(hostile), "-o", str(tmp_path / "out.s"))

    assert "\x1b" not in done.stderr
    assert "\\x1b[2Jkernel" in done.stderr
