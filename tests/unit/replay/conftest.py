"""The emulated device in this process, and code objects for it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from asmevo import native
from asmevo.codeobject import toolchain

FIXTURES = Path(__file__).parents[2] / "fixtures"

Assemble = Callable[[str], bytes]


@pytest.fixture(scope="session")
def hip_library() -> ctypes.CDLL:
    """The emulated device's library. Tests that break the device use a process of their own."""
    return ctypes.CDLL(str(native.emulator_library()))


@pytest.fixture(scope="session")
def assemble_fixture() -> Assemble:
    """The code object of a file in tests/fixtures."""

    def assemble(name: str) -> bytes:
        text = (FIXTURES / name).read_text()
        return toolchain.link(toolchain.assemble(text, "gfx942"))

    return assemble


@pytest.fixture(scope="session")
def kernarg_dump(assemble_fixture: Assemble) -> bytes:
    """A kernel that copies its kernarg segment, and two variables."""
    return assemble_fixture("kernarg_dump.s")
