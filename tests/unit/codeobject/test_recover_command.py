"""The recover and rebuild commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_containers import (
    GFX90A,
    GFX942,
    HOST,
    compress_bundle,
    make_bundle,
    make_host_library,
)
from typer.testing import CliRunner

from asmevo.cli import app
from asmevo.codeobject import time_limit
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.compare import compare
from asmevo.codeobject.recover import recover
from asmevo.errors import AsmevoError, CodeObjectError

runner = CliRunner()


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "asmevo", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def hsaco(tmp_path: Path, build_object: Any) -> Path:
    path = tmp_path / "scale.hsaco"
    path.write_bytes(build_object("scale"))
    return path


def test_recover_then_rebuild_gives_the_object_back(tmp_path: Path, hsaco: Path) -> None:
    assembly, rebuilt = tmp_path / "scale.s", tmp_path / "again.hsaco"

    recovering = run("recover", hsaco, "-o", assembly)
    rebuilding = run("rebuild", assembly, "-o", rebuilt)

    assert recovering.stdout.splitlines()[-1] == f"Wrote {assembly}"
    assert rebuilding.stdout.splitlines()[-1] == f"Wrote {rebuilt}"
    first, second = (CodeObject.read(path.read_bytes()) for path in (hsaco, rebuilt))
    assert compare(first, second) == ()


def test_recover_never_overwrites_without_force(tmp_path: Path, hsaco: Path) -> None:
    assembly = tmp_path / "kept.s"
    assembly.write_text("mine")

    refused = run("recover", hsaco, "-o", assembly)
    untouched = assembly.read_text()
    forced = run("recover", hsaco, "-o", assembly, "--force", "--json")

    assert (refused.returncode, untouched) == (2, "mine")
    assert "--force" in refused.stderr
    facts = json.loads(forced.stdout)
    assert (facts["arch"], facts["kernels"], facts["kept_as_bytes"]) == ("gfx942", ["scale"], 0)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"text\n" * 50, None])
def test_recover_bad_input_is_one_line_that_names_the_file(
    tmp_path: Path, hsaco: Path, content: bytes | None
) -> None:
    bad = tmp_path / "bad.hsaco"
    bad.write_bytes(hsaco.read_bytes()[:1000] if content is None else content)

    done = run("recover", bad, "-o", tmp_path / "out.s")

    assert done.returncode == 2
    assert done.stderr.startswith(f"asmevo: {bad}: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out.s").exists()


def test_rebuild_bad_assembly_names_the_line(tmp_path: Path) -> None:
    assembly = tmp_path / "bad.s"
    assembly.write_text('.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\ns_nonsense\n')

    done = run("rebuild", assembly, "-o", tmp_path / "out.hsaco")

    assert done.returncode == 1
    assert "line 2: invalid instruction" in done.stderr
    assert done.stderr.count("\n") == 1


def test_recover_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    done = run("recover", tmp_path / "none.hsaco", "-o", tmp_path / "out.s")

    assert done.returncode == 2
    assert "No such file" in done.stderr


def make_library(tmp_path: Path, build_object: Any) -> Path:
    scale, two = build_object("scale"), build_object("two_kernels")
    bundle = make_bundle([(HOST, b""), (GFX90A, b"\x7fELF no object"), (GFX942, scale)])
    packed = compress_bundle(make_bundle([(GFX942, two)]), 3, "zstd")
    path = tmp_path / "library.so"
    path.write_bytes(make_host_library(bundle + bytes(4096) + packed))
    return path


@pytest.mark.parametrize(
    ("options", "kernels"),
    [
        (["--index", "2"], ["first", "second"]),
        (["--kernel", "scale"], ["scale"]),
        (["--arch", "gfx942", "--kernel", "second"], ["first", "second"]),
    ],
)
def test_recover_of_an_object_in_a_library_takes_the_named_one(
    tmp_path: Path, build_object: Any, options: list[str], kernels: list[str]
) -> None:
    library = make_library(tmp_path, build_object)
    output = tmp_path / "kernel.s"

    result = runner.invoke(app, ["recover", str(library), "-o", str(output), "--json", *options])

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["kernels"] == kernels
    assert ".amdgcn_target" in output.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arch", "gfx942"], "2 code objects; name one"),
        ([], "3 code objects; name one"),
        (["--index", "9"], "no such code object"),
        (["--kernel", "nothing"], "no such code object"),
        (["--arch", "sm_90"], "unknown architecture"),
        (["--index", "0"], "too short"),
    ],
)
def test_recover_of_a_library_without_one_choice_names_what_there_is(
    tmp_path: Path, build_object: Any, options: list[str], message: str
) -> None:
    library = make_library(tmp_path, build_object)

    with pytest.raises(AsmevoError, match=message) as caught:
        runner.invoke(
            app,
            ["recover", str(library), "-o", str(tmp_path / "kernel.s"), *options],
            catch_exceptions=False,
        )

    assert "\n" not in str(caught.value)
    assert caught.value.hint or "name" not in message


def test_rebuild_with_an_original_in_a_library_takes_the_one_for_the_text(
    tmp_path: Path, build_object: Any
) -> None:
    library = make_library(tmp_path, build_object)
    text, output = tmp_path / "kernel.s", tmp_path / "kernel.hsaco"
    text.write_text(recover(build_object("two_kernels")).to_assembly())
    command = ["rebuild", str(text), "-o", str(output), "--original", str(library)]

    assert runner.invoke(app, [*command, "--index", "2"]).exit_code == 0
    assert runner.invoke(app, [*command, "--index", "1", "--force"]).exit_code != 0


def test_recover_that_takes_too_long_is_ended(
    tmp_path: Path, build_object: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "kernel.hsaco"
    source.write_bytes(build_object("scale"))
    monkeypatch.setattr(time_limit, "_OBJECT_SECONDS", 0.001)

    with pytest.raises(CodeObjectError, match=r"kernel.hsaco: took longer than 0.001 s"):
        runner.invoke(
            app,
            ["recover", str(source), "-o", str(tmp_path / "kernel.s")],
            catch_exceptions=False,
        )
