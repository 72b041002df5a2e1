"""scripts/library_suites: what a run records, how it is taken up, what is counted."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"
PROGRAM = """
import os, pytest

def test_passes(): pass
def test_fails(): assert False, "a reason"
@pytest.mark.skip
def test_skips(): pass
@pytest.mark.xfail
def test_is_expected_to_fail(): assert False
def test_ends_the_process(): os._exit(3)
def test_needs_more_devices(): assert False
@pytest.mark.parametrize("n", range(6))
def test_many(n): pass
"""


@pytest.fixture(scope="module")
def suites() -> Any:
    spec = importlib.util.spec_from_file_location("library_suites", SCRIPTS / "library_suites.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run_pytest(folder: Path, record: Path, **settings: Any) -> int:
    environment = {
        **os.environ,
        "PYTHONPATH": str(SCRIPTS / "lib"),
        "SUITE_RECORD": str(record),
        **{name: json.dumps(value) for name, value in settings.items()},
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "suite_record", "-p", "no:cacheprovider"]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, check=False
    ).returncode


@pytest.fixture(scope="module")
def record(suites: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of a suite that ends its process once and is then taken up."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_sample.py").write_text(PROGRAM)
    path = folder / "record.jsonl"
    settings = {"SUITE_LEFT_OUT": ["*more_devices*"], "SUITE_EVERY": {"test_sample.py": 1}}
    assert run_pytest(folder, path, **settings) == 3
    assert suites.stop_running_test(path)
    run_pytest(folder, path, **settings)
    assert not suites.stop_running_test(path)
    return path


def test_record_of_a_taken_up_run_has_each_test_once(suites: Any, record: Path) -> None:
    collected, tests = suites.read_record(record)

    outcomes = {name.partition("::")[2]: line["outcome"] for name, line in tests.items()}
    assert collected == {"test_sample.py": 12}
    assert outcomes == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_skips": "skipped",
        "test_is_expected_to_fail": "xfailed",
        "test_ends_the_process": "stopped",
        **{f"test_many[{n}]": "passed" for n in range(6)},
    }
    started = [json.loads(line) for line in record.read_text().splitlines()]
    names = [line["test"] for line in started if "test" in line and "outcome" not in line]
    assert len(names) == len(set(names)) == 11


def test_table_counts_what_was_run_and_what_came_of_it(suites: Any, record: Path) -> None:
    rows = list(suites.format_table(suites.SUITES[0], record))

    assert "| test_sample.py | 12 | 11 | 7 | 1 | 1 | 1 | 1 |" in rows[3]
    assert rows[-1].startswith("| all | 12 | 11 | 7 |")


def test_part_of_a_file_is_every_nth_test(suites: Any, tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(PROGRAM)
    path = tmp_path / "record.jsonl"

    run_pytest(tmp_path, path, SUITE_EVERY={"test_sample.py": 7})

    collected, tests = suites.read_record(path)
    assert collected == {"test_sample.py": 12}
    assert sorted(tests) == ["test_sample.py::test_many[1]", "test_sample.py::test_passes"]


def test_record_of_a_file_that_cannot_be_imported_is_a_failure(suites: Any, tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import there_is_no_such_module")
    path = tmp_path / "record.jsonl"

    run_pytest(tmp_path, path)

    line = suites.read_record(path)[1]["test_broken.py::(collection)"]
    assert line["outcome"] == "failed"
    assert "there_is_no_such_module" in line["text"]
