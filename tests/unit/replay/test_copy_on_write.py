"""Copy-on-write mappings of the emulated device, in a process of their own."""

from __future__ import annotations

import subprocess
import sys

from asmevo.replay.device import Device

_PROGRAM = """
import numpy as np
from asmevo.replay.hip_runtime import HipFailure, HipRuntime
runtime = HipRuntime(is_emulated=True)
memory = runtime.create_memory(8192)
window, place = runtime.reserve(8192), runtime.reserve(8192)
runtime.map_memory(window, memory)
runtime.write(window, np.full(8192, 1, dtype=np.uint8))
runtime.unmap_memory(window, memory)

def stored():
    return [int(runtime.look_at(place + at, 1)[0]) for at in (0, 4096, 8191)]

runtime.map_copy_on_write(place, memory)
assert stored() == [1, 1, 1], stored()
runtime.fill(place + 4096, 7, 4096)
assert stored() == [1, 7, 7], stored()
runtime.map_memory(window, memory)
assert int(runtime.look_at(window + 4096, 1)[0]) == 1  # the memory itself is untouched
runtime.unmap_memory(window, memory)
runtime.map_copy_on_write(place, memory)
assert stored() == [1, 1, 1], stored()
for address in (place + 4096, 0x10000, window + 1):
    try:
        runtime.map_copy_on_write(address, memory)
    except HipFailure:
        continue
    raise AssertionError(hex(address))
runtime.unmap_memory(place, memory)
try:
    runtime.fill(place, 0, 1)
except HipFailure:
    print("done")
"""


def test_copy_on_write_mapping_takes_stores_back_and_leaves_its_memory_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=Device.emulated(discrete=True).environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "done\n", done.stderr
