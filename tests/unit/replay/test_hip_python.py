"""hip-python drives the emulated device."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from asmevo.replay.device import Device

PROGRAM = Path(__file__).with_name("hip_python_program.py")
FIXED_ADDRESS = 0x7A1000000000


def test_hip_python_launches_on_memory_at_a_fixed_address(
    kernarg_dump: bytes, tmp_path: Path
) -> None:
    image = tmp_path / "k.hsaco"
    image.write_bytes(kernarg_dump)

    output = subprocess.check_output(
        [sys.executable, str(PROGRAM), str(image), hex(FIXED_ADDRESS)],
        env=Device.parse("emulated").environment(),
        text=True,
    )

    result = json.loads(output)
    assert (result["out"], result["seen"]) == (FIXED_ADDRESS, [11, 22, 33])
    assert result["elapsed_ms"] > 0
