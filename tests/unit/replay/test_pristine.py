"""The pristine copy on a device of plain bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from small_bundle import Buffer, write_small_bundle

from asmevo.capture.bundle import open_bundle
from asmevo.errors import ReplayError
from asmevo.replay.hip_runtime import HipRuntime, PhysicalMemory
from asmevo.replay.numeric import Bytes
from asmevo.replay.pristine import PristineCopy

_OUT, _X = 0x7E0000000000, 0x7E0000002000
_BASE = 0x1000000


class _FakeRuntime:
    """Device memory that exists only where it is mapped."""

    def __init__(self) -> None:
        self.memory: dict[int, bytearray] = {}
        self.written: dict[int, bytes] = {}

    def granularity_bytes(self) -> int:
        return 4096

    def reserve(self, size_bytes: int) -> int:
        return _BASE

    def create_memory(self, size_bytes: int) -> PhysicalMemory:
        return PhysicalMemory(handle=bytearray(size_bytes), size_bytes=size_bytes)

    def map_memory(self, address: int, memory: PhysicalMemory) -> None:
        assert address not in self.memory
        self.memory[address] = memory.handle

    def unmap_memory(self, address: int, memory: PhysicalMemory) -> None:
        del self.memory[address]

    def write(self, address: int, data: Bytes) -> None:
        start = address - _BASE
        self.memory[_BASE][start : start + data.size] = data.tobytes()

    def look_at(self, address: int, size_bytes: int) -> Bytes:
        start = address - _BASE
        return np.frombuffer(self.memory[_BASE][start : start + size_bytes], dtype=np.uint8)

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        start = source - _BASE
        self.written[target] = bytes(self.memory[_BASE][start : start + size_bytes])


def _copy(folder: Path, old_image: tuple[int, int] | None = None) -> tuple[Any, _FakeRuntime, Any]:
    path = write_small_bundle(
        folder / "a.aeb",
        kernel="k",
        code_object=b"",
        buffers=[
            Buffer(address=_OUT, before=bytes(range(100))),
            Buffer(address=_X + 4, before=bytes(4) + (0x7C0000001234).to_bytes(8, "little")),
        ],
    )
    runtime = _FakeRuntime()
    with open_bundle(path) as bundle:
        copy = PristineCopy(bundle, cast(HipRuntime, runtime), old_image=old_image)
        return copy, runtime, bundle.manifest.regions


def test_pristine_copy_has_no_address_but_while_it_is_used(tmp_path: Path) -> None:
    copy, runtime, regions = _copy(tmp_path)

    assert runtime.memory == {}
    copy.copy_to([(region, region.address) for region in regions])
    assert runtime.memory == {}
    assert runtime.written[_OUT] == bytes(range(100))
    with copy.mapped(), copy.mapped():
        assert copy.read(regions[0], 96, 4).tobytes() == bytes([96, 97, 98, 99])
        assert len(runtime.memory) == 1
    assert runtime.memory == {}


@pytest.mark.parametrize(("start", "is_refused"), [(0x7C0000001000, True), (0x7C0000001235, False)])
def test_pristine_copy_with_pointer_into_old_image_is_refused(
    tmp_path: Path, start: int, is_refused: bool
) -> None:
    image = (start, start + 0x1000)

    if not is_refused:
        _copy(tmp_path, image)
        return
    with pytest.raises(ReplayError, match=r"region 1 points into K0's old image .* offset 4\)"):
        _copy(tmp_path, image)
