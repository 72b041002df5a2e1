"""What a Python of the child does at its start; the build of the backend by a fake compiler."""

from __future__ import annotations

import dataclasses
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from asmevo.replay.device import Device
from asmevo.replay.torch_device import build

COUNT_CALLS = """#!/bin/sh
echo called >>{log}
while [ "$1" != -o ]; do shift; done
sleep 0.2
echo library >"$2"
"""


def run_python(code: str, environment: dict[str, str]) -> str:
    return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)


@pytest.fixture
def environment() -> dict[str, str]:
    return Device.emulated().environment({"PATH": os.environ["PATH"]}, torch=True)


def test_environment_names_the_site_folder_only_when_asked(environment: dict[str, str]) -> None:
    assert environment["PYTHONPATH"].endswith("torch_device/site")
    assert "PYTHONPATH" not in Device.emulated().environment({})


def test_site_imports_nothing_of_torch(environment: dict[str, str]) -> None:
    loaded = run_python("import sys; print(*sys.modules)", environment).split()

    assert "asmevo_torch_device.imports" in loaded
    assert not {"torch", "ctypes", "subprocess", "pathlib"} & set(loaded)


def test_site_runs_the_next_sitecustomize(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.seen = __file__")
    environment["PYTHONPATH"] += f":{tmp_path}"

    assert run_python("print(seen)", environment).strip() == str(tmp_path / "sitecustomize.py")


def fake_torch(folder: Path, *, version: str) -> None:
    """A torch package that has what the set-up looks at."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text("from torch import _C, version")
    (folder / "torch" / "_C.py").write_text("_GLIBCXX_USE_CXX11_ABI = True")
    (folder / "torch" / "version.py").write_text(version)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("__version__ = '2.13.0+cu130'; cuda = '13.0'; hip = None", "is built for NVIDIA's CUDA"),
        ("__version__ = '2.13.0+xpu'; cuda = hip = None; xpu = '1'", "is built for another GPU"),
    ],
)
def test_other_builds_of_torch_are_left_alone_with_one_line(
    environment: dict[str, str], tmp_path: Path, version: str, expected: str
) -> None:
    fake_torch(tmp_path, version=version)
    environment["PYTHONPATH"] += f":{tmp_path}"

    done = subprocess.run(
        [sys.executable, "-c", "import torch"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert expected in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_torch_of_rocm_is_left_alone_without_a_word(
    environment: dict[str, str], tmp_path: Path
) -> None:
    fake_torch(tmp_path, version="__version__ = '2.13.0+rocm7.2'; cuda = None; hip = '7.2'")
    environment["PYTHONPATH"] += f":{tmp_path}"

    done = subprocess.run(
        [sys.executable, "-c", "import torch; print(vars(torch._C).keys())"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stderr == ""
    assert "_cuda_init" not in done.stdout


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> build.Target:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return build.Target(
        folder=tmp_path / "torch", version="9.9", commit="c0ffee", uses_cxx11_abi=True
    )


def use_compiler(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "fake-c++"
    path.write_text(script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(path))
    monkeypatch.setattr(build, "_COMPILERS", ())
    monkeypatch.setattr(build, "_WRAPPER", "no-such-wrapper")


def test_build_runs_once_for_callers_at_one_time(
    target: build.Target,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    use_compiler(COUNT_CALLS.format(log=tmp_path / "log"), tmp_path, monkeypatch)

    with ThreadPoolExecutor(3) as pool:
        libraries = set(pool.map(build.build_backend, [target] * 3))

    assert len(libraries) == 1
    assert libraries.pop().read_text() == "library\n"
    assert (tmp_path / "log").read_text() == "called\n"
    assert capsys.readouterr().err.count("building the emulated device for torch 9.9") == 1


def test_build_that_fails_names_the_compilers_words(
    target: build.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_compiler("#!/bin/sh\necho no such header\nexit 1\n", tmp_path, monkeypatch)

    with pytest.raises(build.BuildError, match=r"does not compile for torch 9\.9") as caught:
        build.build_backend(target)

    log = str(caught.value).partition("(see ")[2].rstrip(")")
    assert "no such header" in Path(log).read_text()
    assert list(Path(log).parent.glob("*.so*")) == []


def test_build_without_compiler_says_what_to_install(
    target: build.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(build, "_COMPILERS", ())
    monkeypatch.setattr(build, "_WRAPPER", "no-such-wrapper")

    with pytest.raises(build.BuildError, match="no C\\+\\+ compiler"):
        build.build_backend(target)


@pytest.mark.parametrize(
    "change", [{"version": "9.8"}, {"commit": "decaf"}, {"uses_cxx11_abi": False}]
)
def test_build_depends_on_torch_and_its_abi(target: build.Target, change: dict[str, Any]) -> None:
    other = dataclasses.replace(target, **change)

    assert build._digest(target) != build._digest(other)


def test_environments_with_the_same_torch_share_the_build(target: build.Target) -> None:
    other = dataclasses.replace(target, folder=target.folder / "elsewhere")

    assert build._digest(target) == build._digest(other)


def test_build_that_takes_too_long_says_so_and_tries_no_other_compiler(
    target: build.Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_compiler("#!/bin/sh\nexec sleep 60\n", tmp_path, monkeypatch)
    monkeypatch.setattr(build, "_COMPILERS", ("sh",))
    monkeypatch.setattr(build, "_TIME_LIMIT_S", 0.2)

    with pytest.raises(build.BuildError, match=r"fake-c\+\+ took longer than"):
        build.build_backend(target)
