"""Differences between code objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.compare import compare
from asmevo.codeobject.toolchain import assemble, link

FIXTURES = Path(__file__).parents[2] / "fixtures"


def variant(name: str, old: str, new: str) -> CodeObject:
    text = (FIXTURES / f"{name}.s").read_text()
    assert old in text
    return CodeObject.read(link(assemble(text.replace(old, new), "gfx942")))


def test_compare_same_object_finds_nothing(build_object: Any) -> None:
    one = CodeObject.read(build_object("two_kernels"))

    assert compare(one, CodeObject.read(build_object("two_kernels"))) == ()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("v_mul_f32_e32 v0, 0x40490fdb", "v_mul_f32_e32 v0, 0x40490fdc", ".text: first at +0x108"),
        (".amdhsa_ieee_mode 0", ".amdhsa_ieee_mode 1", "descriptor second: first at +0x32"),
        (".sgpr_count: 46", ".sgpr_count: 40", "metadata /amdhsa.kernels/0/.sgpr_count: 46 and 40"),
        (".long 1, 2, 3, 5", ".long 1, 2, 4, 5", "section .rodata: first at +0x88"),
        (".quad 42", ".quad 43", "section .data: first at +0x0"),
        (".zero 64", ".zero 128", "section .bss: 64 and 128 bytes"),
        (".size variable, 8", ".size variable, 4", "symbol variable: "),
    ],
)
def test_compare_one_change_is_named(build_object: Any, old: str, new: str, expected: str) -> None:
    first = CodeObject.read(build_object("two_kernels"))

    differences = compare(first, variant("two_kernels", old, new))

    assert any(str(one).startswith(expected) for one in differences), [*map(str, differences)]


def test_compare_number_of_kernels_is_named(build_object: Any) -> None:
    first = CodeObject.read(build_object("two_kernels"))

    differences = [str(one) for one in compare(first, CodeObject.read(build_object("scale")))]

    assert "descriptor first: only in the first object" in differences
    assert "descriptor scale: only in the second object" in differences
