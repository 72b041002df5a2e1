"""Code objects that define one kernel name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hot_path_target import LAUNCH_SLOT, Target

from asmevo.capture.loaded_objects import LoadedKernel
from asmevo.codeobject import toolchain
from asmevo.codeobject.code_object import CodeObject

FIXTURES = Path(__file__).parents[2] / "fixtures"


def _assemble(text: str) -> bytes:
    return toolchain.link(toolchain.assemble(text, "gfx942"))


@pytest.fixture(scope="session")
def scale_objects() -> tuple[bytes, bytes]:
    """Two code objects whose kernel `scale` has the same attributes and other code."""
    text = (FIXTURES / "scale.s").read_text()
    return _assemble(text), _assemble(text.replace("  s_endpgm", "  s_nop 0\n  s_endpgm"))


@pytest.fixture
def scale_wide() -> LoadedKernel:
    """Another one, which says that it takes workgroups of 256."""
    text = (FIXTURES / "scale.s").read_text()
    size = ".max_flat_workgroup_size: "
    one = CodeObject.read(_assemble(text.replace(f"{size}64", f"{size}256")))
    return LoadedKernel(code_object=one, kernel=one.kernels[0], load_bias=0x7200_0000_0000)


@pytest.fixture
def target(stub_hip: Path) -> Iterator[Target]:
    target = Target(stub_hip)
    original = target.hip.stub_slot(LAUNCH_SLOT)
    yield target
    assert target.agent.asmevo_capture_close() == 0
    assert target.hip.stub_slot(LAUNCH_SLOT) == original
    target.hip.hipGetLastError()
