"""The recover and rebuild commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.compare import compare


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
