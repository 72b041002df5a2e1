"""A stub libamdhip64.so, built from C once a session."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"

BuildStub = Callable[..., Path]


@pytest.fixture(scope="session")
def build_stub(tmp_path_factory: pytest.TempPathFactory) -> BuildStub:
    """Build `stub_hip.c` with more compiler arguments; the library's path."""

    def build(*arguments: str) -> Path:
        library = tmp_path_factory.mktemp("stub") / "libamdhip64.so"
        compiler = os.environ.get("CC", "cc").split()
        base = ["-shared", "-fPIC", "-pthread", "-fvisibility=hidden", "-Wl,-soname,libamdhip64.so"]
        source = FIXTURES / "stub_hip.c"
        subprocess.run([*compiler, *base, *arguments, source, "-o", library], check=True)
        return library

    return build


@pytest.fixture(scope="session")
def stub_hip(build_stub: BuildStub) -> Path:
    """The stub as a compiler usually makes it."""
    return build_stub("-O2")
