"""What a dispatch touches of a large pool, on the emulated device."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asmevo.capture.bundle import Bundle, Moment, open_bundle
from asmevo.capture.manifest import Policy, RegionKind
from asmevo.replay.device import Device

HERE = Path(__file__).parent
SOURCE = HERE.parent / "fixtures" / "pool_kernels.hip"
CLANG = shutil.which("clang-22")
POOL_BYTES = 96 << 20

pytestmark = pytest.mark.skipif(CLANG is None, reason="needs clang-22 with AMDGPU")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    path = tmp_path_factory.mktemp("object") / "pool.hsaco"
    command = [str(CLANG), "-x", "hip", "--offload-arch=gfx942", "-nogpuinc", "-nogpulib"]
    command += ["--cuda-device-only", "--no-gpu-bundle-output", "-O3"]
    subprocess.run([*command, str(SOURCE), "-o", str(path)], check=True)
    process = subprocess.Popen(
        [sys.executable, str(HERE / "capture_pool_target.py"), str(path)],
        env=Device.emulated(threads=1).environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    output, _ = process.communicate("", timeout=60)
    launches, wrong = map(int, output.split())
    assert launches > 0
    assert (wrong, process.returncode) == (0, 0)


def asmevo(*arguments: str) -> Any:
    command = [sys.executable, "-m", "asmevo", *arguments, "--json"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def capture(pid: int, kernel: str, output: Path, *arguments: str) -> list[Path]:
    found = asmevo("capture", "attach", str(pid), "--kernel", kernel, "-o", str(output), *arguments)
    return [Path(item["path"]) for item in found["bundles"]]


def variables(bundle: Bundle) -> dict[str | None, bytes]:
    return {
        region.symbol: bundle.region_bytes(region, Moment.BEFORE)
        for region in bundle.manifest.regions
        if region.kind is RegionKind.MODULE_GLOBAL
    }


def test_touched_pages_of_a_pool_make_a_small_bundle_that_replays(
    program: subprocess.Popen[str], tmp_path: Path
) -> None:
    (whole,) = capture(program.pid, "gather_pages", tmp_path / "whole", "--policy", "allocation")
    (small,) = capture(program.pid, "gather_pages", tmp_path / "touched")

    with open_bundle(whole) as bundle:
        bundle.verify()
        assert bundle.manifest.capture.policy is Policy.ALLOCATION
        size = sum(region.size_bytes for region in bundle.manifest.regions)
        assert size > POOL_BYTES
    with open_bundle(small) as bundle:
        bundle.verify()
        regions = bundle.manifest.regions
        assert bundle.manifest.capture.policy is Policy.TOUCHED
        assert sum(region.size_bytes for region in regions) < size / 100
        in_pool = [r for r in regions if r.allocation and r.allocation.size_bytes == POOL_BYTES]
        assert in_pool
        assert set(variables(bundle)) == {"scale_of_all", "launches_done"}
        assert struct.unpack("f", variables(bundle)["scale_of_all"]) == (3.0,)
    assert not list((tmp_path / "touched").glob(".*"))
    replayed = asmevo("replay", str(small))
    assert replayed["k0"]["verdict"]["status"] == "passed"


def test_pointer_array_is_followed(program: subprocess.Popen[str], tmp_path: Path) -> None:
    (path,) = capture(program.pid, "add_to_each", tmp_path)

    with open_bundle(path) as bundle:
        bundle.verify()
        arrays = [r for r in bundle.manifest.regions if r.memory_pointers]
        assert len(arrays) == 2
        for region in arrays:
            before = struct.unpack_from("64f", bundle.region_bytes(region, Moment.BEFORE))
            after = struct.unpack_from("64f", bundle.region_bytes(region, Moment.AFTER))
            assert after == tuple(value + 1 for value in before)


def test_redacted_bundle_keeps_shapes_and_code_and_runs(
    program: subprocess.Popen[str], tmp_path: Path
) -> None:
    (path,) = capture(program.pid, "gather_pages", tmp_path / "out", "--redact")

    with open_bundle(path) as bundle:
        bundle.verify()
        manifest = bundle.manifest
        assert manifest.capture.is_redacted
        assert all(region.after is None for region in manifest.regions)
        pages = [r for r in manifest.regions if r.allocation and r.allocation.size_bytes > 1 << 26]
        for region in pages:
            content = bundle.region_bytes(region, Moment.BEFORE)
            assert len(set(struct.unpack("1024f", content[:4096]))) > 1  # was one number
    assert asmevo("replay", str(path))["k0"]["verdict"]["status"] == "passed"
    assert not list((tmp_path / "out").glob(".*"))
