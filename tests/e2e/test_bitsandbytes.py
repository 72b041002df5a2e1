"""bitsandbytes' own HIP library runs on the emulated device, though there is no ROCm library."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from asmevo.replay.device import Device

PROGRAM = Path(__file__).with_name("bitsandbytes_program.py")
SCRIPT = Path(__file__).parents[2] / "scripts" / "fetch_inputs.py"
# Rounding of one result of the type: of f32, f16 or bf16, by the name's end.
LIMITS = {"fp32": 4e-7, "32": 4e-7, "fp16": 6e-4, "16": 6e-4, "bf16": 4e-3}


def fetch_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fetch_inputs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def library() -> Path:
    script = fetch_script()
    item = next(item for item in script.KERNEL_INPUTS if item.name == "bitsandbytes")
    return Path(script.fetch(item, script.get_cache()) / item.libraries[0])


def limit(entry: str) -> float:
    kind = next(part for part in reversed(entry.split("_")) if part not in ("nf4", "fp4"))
    return LIMITS.get(kind, 1e-6)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_entry_points_compute_what_they_should(library: Path, arch: str) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(library)],
        env=Device.emulated(arch=arch).environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    lines = [line[line.index("{") :] for line in done.stdout.splitlines() if "{" in line]
    *results, refused = map(json.loads, lines)
    assert len(results) == 62
    wrong = [result for result in results if not result["error"] <= limit(result["entry"])]
    assert wrong == []
    assert refused == {"entry": "cigemmlt_32", "status": 1}
    assert "hipblasLtMatmulAlgoGetHeuristic: the device has no hipblaslt" in done.stderr
