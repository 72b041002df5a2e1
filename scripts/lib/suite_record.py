"""A pytest plugin: one JSON line for each test as it starts and ends; a run can be taken up.

The environment names the file (SUITE_RECORD); for files of which only a part is to run, how many
tests stand for one (SUITE_EVERY: a JSON object of file names and numbers); and patterns of tests
that are not to run (SUITE_LEFT_OUT: a JSON list).
"""

from __future__ import annotations

import fnmatch
import json
import os
from pathlib import Path
from typing import Any

_RECORD = Path(os.environ["SUITE_RECORD"])
_EVERY: dict[str, int] = json.loads(os.environ.get("SUITE_EVERY", "{}"))
_LEFT_OUT: list[str] = json.loads(os.environ.get("SUITE_LEFT_OUT", "[]"))
_TEXT_LIMIT = 600


def _append(line: dict[str, Any]) -> None:
    with _RECORD.open("a") as file:
        file.write(json.dumps(line) + "\n")


def _read_known() -> set[str]:
    """Tests that were started before: they ended, or they were what ended the process."""
    if not _RECORD.exists():
        return set()
    lines = (json.loads(line) for line in _RECORD.read_text().splitlines())
    return {line["test"] for line in lines if "test" in line}


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep the part that is to run and was not yet run."""
    known = _read_known()
    counts: dict[str, int] = {}
    kept = []
    for item in items:
        name = item.nodeid.partition("::")[0]
        index = counts.get(name, 0)
        counts[name] = index + 1
        is_left_out = any(fnmatch.fnmatch(item.nodeid, pattern) for pattern in _LEFT_OUT)
        if index % _EVERY.get(name, 1) == 0 and item.nodeid not in known and not is_left_out:
            kept.append(item)
    _append({"collected": counts})
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be imported counts as one failure, a skipped one as one skipped."""
    if report.outcome != "passed":
        name = f"{report.nodeid}::(collection)"
        text = str(report.longrepr)[-_TEXT_LIMIT:]
        _append({"test": name, "outcome": report.outcome, "seconds": 0.0, "text": text})


def pytest_runtest_logstart(nodeid: str) -> None:
    """The test that is running, in case that nothing comes after."""
    _append({"test": nodeid})


def pytest_runtest_logreport(report: Any) -> None:
    """What came of a test: its call, or the phase that failed or was skipped."""
    if report.when == "call" or report.outcome != "passed":
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        text = "" if outcome == "passed" else str(report.longrepr)[-_TEXT_LIMIT:]
        line = {"test": report.nodeid, "outcome": outcome, "seconds": report.duration}
        _append({**line, "text": text})
