"""Dispatches of the live demo server, captured and replayed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from client import DemoServer

from asmevo.capture.bundle import open_bundle
from asmevo.codeobject.rebuild import rebuild
from asmevo.codeobject.recover import recover
from asmevo.replay.device import Device
from asmevo.replay.engine import replay
from asmevo.verdict import Status

pytestmark = pytest.mark.triton

_KERNELS = {
    "softmax": "softmax_kernel",
    "rms_norm": "add_rms_norm_kernel",
    "matmul": "matmul_kernel",
    "merge_attn_states": "merge_attn_states_kernel",
}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one bundle of each kernel; the server has ended when they are replayed."""
    folder = tmp_path_factory.mktemp("bundles")
    environment = Device.parse("emulated").environment()
    with DemoServer(environment=environment) as server:
        for name in _KERNELS:
            server.run(name)
        command = [sys.executable, "-m", "asmevo", "capture", "attach", str(server.pid)]
        command += ["--count", "1", "-o", str(folder)]
        command += [item for kernel in _KERNELS.values() for item in ("--kernel", kernel)]
        attached = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while attached.poll() is None:
            for name in _KERNELS:
                server.run_checked(name, seed=1)
        assert attached.stderr is not None
        log = attached.stderr.read().decode()
        attached.stderr.close()
        assert attached.returncode == 0, log
    return folder


@pytest.mark.parametrize("kernel", _KERNELS.values())
def test_replay_of_captured_dispatch_gives_golden_output(bundles: Path, kernel: str) -> None:
    (path,) = bundles.glob(f"{kernel}-*.aeb")

    result = replay(path, [], device=Device.parse("emulated"))

    assert result.k0.verdict.reasons == ()
    golden = result.k0.comparisons[0]
    assert golden.against == "golden output"
    with open_bundle(path) as bundle:
        regions = bundle.manifest.regions
    assert golden.bytes_compared == sum(region.size_bytes for region in regions)
    assert any(region.after != region.before for region in regions)


def test_replay_of_captured_dispatch_with_one_instruction_changed_is_divergent(
    bundles: Path, tmp_path: Path
) -> None:
    (path,) = bundles.glob("softmax_kernel-*.aeb")
    with open_bundle(path) as bundle:
        text = recover(bundle.code_object()).to_assembly()
    assert "v_exp_f32_e32" in text
    candidate = tmp_path / "changed.hsaco"
    candidate.write_bytes(rebuild(text.replace("v_exp_f32_e32", "v_log_f32_e32", 1), "gfx942"))

    result = replay(path, [candidate], device=Device.parse("emulated"))

    (changed,) = result.candidates
    assert changed.verdict.status is Status.DIVERGENT
    first = changed.comparisons[0].first_difference
    assert first is not None
    assert first.argument == "#0 (kernarg +0)"
