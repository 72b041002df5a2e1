"""Capture where nothing but ROCm's documented calls is there: on the stub, in two mapped copies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asmevo.capture.bundle import Moment, open_bundle
from asmevo.codeobject import toolchain
from asmevo.native import capture_library

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("object") / "scale.hsaco"
    text = (FIXTURES / "scale.s").read_text()
    path.write_bytes(toolchain.link(toolchain.assemble(text, "gfx942")))
    return path


@pytest.fixture
def program(image: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    copies = []
    for name in ("torch", "rocm"):
        copies.append(tmp_path / name / "libamdhip64.so")
        copies[-1].parent.mkdir()
        flags = ["-O2", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden"]
        command = ["cc", *flags, str(FIXTURES / "stub_hip.c"), "-o", str(copies[-1])]
        subprocess.run(command, check=True)
    process = subprocess.Popen(
        [sys.executable, str(HERE / "capture_stub_target.py"), str(image), *map(str, copies)],
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
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_code_object_is_found_in_memory_and_every_copy_is_hooked(
    program: subprocess.Popen[str], image: Path, tmp_path: Path
) -> None:
    found = asmevo(
        *("capture", "attach", str(program.pid), "--count", "40", "-o", str(tmp_path / "out")),
        *("--policy", "allocation"),
    )

    addresses = set()
    for item in found["bundles"]:
        with open_bundle(Path(item["path"])) as bundle:
            bundle.verify()
            assert bundle.code_object() == image.read_bytes()
            out, source = bundle.manifest.regions
            before = bundle.region_bytes(source, Moment.BEFORE)
            assert bundle.region_bytes(out, Moment.AFTER) == bytes([before[0] + 1]) * 256
            addresses.add(out.address)
    assert len(addresses) == 2  # one thread on each copy of the library


def test_launches_of_both_copies_are_counted(program: subprocess.Popen[str]) -> None:
    usage = asmevo("capture", "list", str(program.pid), "--for", "1s")

    (kernel,) = usage["processes"][0]["kernels"]
    assert kernel["kernel"] == "scale"
    assert kernel["launches"] > 300
    assert kernel["timed"] > 4


@pytest.fixture
def contained(image: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """On one stub, in a mount namespace in which asmevo's native parts are not there."""
    copy = tmp_path / "libamdhip64.so"
    flags = ["-O2", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden"]
    subprocess.run(["cc", *flags, str(FIXTURES / "stub_hip.c"), "-o", str(copy)], check=True)
    hide = f'mount -t tmpfs none "{capture_library().parent}" && exec "$@"'
    program = [sys.executable, str(HERE / "capture_stub_target.py"), str(image), str(copy)]
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", hide, "sh", *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        process.communicate()
        pytest.skip("may not make a mount namespace here")
    yield process
    output, _ = process.communicate("", timeout=60)
    assert output.split()[1:] == ["0"]


def test_target_in_a_container_without_asmevo_is_captured_again_and_again(
    contained: subprocess.Popen[str], tmp_path: Path
) -> None:
    for number in range(2):
        found = asmevo(
            *("capture", "attach", str(contained.pid), "-o", str(tmp_path / str(number))),
            *("--policy", "allocation"),
        )
        assert len(found["bundles"]) == 1
    maps = Path(f"/proc/{contained.pid}/maps").read_text()

    assert len({line.split()[4] for line in maps.splitlines() if "asmevo-library" in line}) == 1
    assert "libasmevo_capture" not in maps
