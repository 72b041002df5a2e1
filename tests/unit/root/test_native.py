"""Native parts that are missing or older than their callers: one line that says what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from asmevo import native
from asmevo.errors import MissingToolError
from asmevo.native_exports import EMULATOR_EXPORTS

REPLAY = Path(__file__).parents[3] / "replay"
CALLS = re.compile(
    r"FIND\((hip\w+)\)"  # the torch backend
    r"|(?:call|status|check)\(\s*\"(hip\w+)\""
    r"|(?:library\(\)|found|library|_library)\.(hip[A-Z]\w+|asmevo_emulator_\w+)"
)


def find_calls() -> set[str]:
    """Functions that the torch layer calls, and the library's own that replay calls."""
    layer = REPLAY / "torch_device"
    sources = [layer / "backend" / "hip_runtime.cpp", *layer.rglob("*.py")]
    sources += [REPLAY / name for name in ("operation_table.py", "hip_runtime.py")]
    return {
        next(filter(None, found.groups()))
        for source in sources
        for found in CALLS.finditer(source.read_text())
    }


def test_names_are_those_that_the_sources_call() -> None:
    assert set(EMULATOR_EXPORTS) == find_calls()


def test_library_that_lacks_a_function_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "emulator"
    folder.mkdir()
    library = native.emulator_library().read_bytes()
    stale = library.replace(b"hipGraphLaunch\0", b"hipGraphLaunhc\0")
    (folder / "libamdhip64.so").write_bytes(stale)
    monkeypatch.setattr(native, "_NATIVE", tmp_path)

    with pytest.raises(MissingToolError) as caught:
        native.emulator_library()

    assert "older than the Python beside it: it has no hipGraphLaunch" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint == "build the native parts again: scripts/build"


def test_missing_library_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "_NATIVE", tmp_path)

    with pytest.raises(MissingToolError, match="is missing"):
        native.emulator_library()
