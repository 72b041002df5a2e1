"""What clang makes of functions, calls, globals, relocations and labels comes back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.containers import FoundObject
from asmevo.codeobject.emit import emit
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.placement import place_instructions
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.codeobject.relink import relink
from asmevo.codeobject.roundtrip import check
from asmevo.codeobject.toolchain import assemble, link

SOURCE = Path(__file__).parents[2] / "fixtures" / "recovery_shapes.c"
CLANG = next((name for name in ("clang-22", "clang-21", "clang-20") if shutil.which(name)), "")

pytestmark = pytest.mark.skipif(not CLANG, reason="needs clang of LLVM 20 or later")


def compile_shapes(folder: Path, target: str, version: int, *options: str) -> bytes:
    output = folder / "shapes.co"
    command = [CLANG, "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-nogpulib"]
    command += [f"-mcode-object-version={version}", *options, str(SOURCE), "-o", str(output)]
    subprocess.run(command, check=True, capture_output=True)
    return output.read_bytes()


@pytest.mark.parametrize(
    ("target", "version", "level"),
    [
        ("gfx90a", 4, "-O0"),
        ("gfx90a:xnack+", 6, "-O2"),
        ("gfx942", 4, "-O3"),
        ("gfx942", 5, "-O1"),
        ("gfx942:sramecc-", 6, "-O0"),
        ("gfx950", 5, "-O2"),
        ("gfx950", 6, "-O3"),
    ],
)
def test_compiled_shapes_come_back_exactly(
    tmp_path: Path, target: str, version: int, level: str
) -> None:
    data = compile_shapes(tmp_path, target, version, level)

    result = check(FoundObject(path=Path("shapes.co"), place="", data=data))

    assert result.is_exact, result.line
    assert result.has_same_image
    assert result.kernels == 4
    # The word that is no instruction.
    assert (result.kept_as_bytes - result.zero_words, result.raw_descriptors) == (1, 0)
    assert not result.has_raw_metadata
    assert CodeObject.read(data).version == version


def test_recovered_text_of_compiled_shapes_is_readable(tmp_path: Path) -> None:
    lines = recover(compile_shapes(tmp_path, "gfx942", 5, "-O2")).to_assembly().splitlines()

    assert "label_0001:" in lines
    assert any(line.startswith("\ts_cbranch_scc0 .L") for line in lines)
    assert "\t.long 0xffffffff" in lines
    assert any("@rel32@lo+4" in line for line in lines)
    assert any("asmevo.undefined.0@gotpcrel32@lo+4" in line for line in lines)
    assert any(line.startswith("\t.quad .Lt") for line in lines), "pointers to functions"


def without_jump(folder: Path, target: str, level: str) -> Listing:
    """Without the jump that blocks edits."""
    return recover(compile_shapes(folder, target, 6, level, "-DWITHOUT_JUMP"))


@pytest.mark.parametrize(("target", "level"), [("gfx90a", "-O0"), ("gfx942", "-O2")])
def test_edits_of_compiled_shapes_are_relinked_as_the_linker_does(
    tmp_path: Path, target: str, level: str
) -> None:
    listing = without_jump(tmp_path, target, level)
    assert not listing.edit_blockers
    place = next(one.id for one in listing.instructions if one.id not in listing.glued)

    edited = listing.insert_after(place, ["s_nop 0"] * 70)
    data = relink(edited, place_instructions(edited))

    assert data == link(assemble(emit(edited).text, edited.arch)) == rebuild_listing(edited)
    before, after = listing.base, CodeObject.read(data)
    assert len(after.relocations) == len(before.relocations) == 4
    assert after.text.size > before.text.size
