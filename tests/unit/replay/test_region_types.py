"""Types of regions: who is believed, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_bundle import Buffer, write_small_bundle

from asmevo.capture.bundle import open_bundle
from asmevo.codeobject import toolchain
from asmevo.codeobject.code_object import CodeObject
from asmevo.errors import UsageError
from asmevo.replay.comparison import RegionFacts
from asmevo.replay.elements import ElementType
from asmevo.replay.region_types import TypeHints, describe_regions, find_store_facts

_SOURCE = (Path(__file__).parents[2] / "fixtures" / "scale.s").read_text()
_OUT, _X = 0x7E0000000000, 0x7E0000002000


def _describe(
    folder: Path,
    hints: TypeHints,
    *edits: tuple[str, str],
    pointer_offset: int = 0,
    name: str = "scale",
) -> tuple[RegionFacts, ...]:
    text = _SOURCE.replace("scale", name)
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = write_small_bundle(
        folder / "scale.aeb",
        kernel=name,
        code_object=toolchain.link(toolchain.assemble(text, "gfx942")),
        buffers=[
            Buffer(address=_OUT, before=bytes(256), pointer_offset=pointer_offset),
            Buffer(address=_X, before=bytes(256)),
        ],
        scalars=bytes(4),
    )
    with open_bundle(path) as bundle:
        k0 = CodeObject.read(bundle.code_object())
        kernel = k0.kernel(name)
        return describe_regions(bundle, k0, kernel, find_store_facts(k0, kernel), hints)


def _types(facts: tuple[RegionFacts, ...]) -> list[tuple[ElementType, str]]:
    return [(one.element_type, one.type_source) for one in facts]


def test_regions_without_hints_have_the_type_of_stores(tmp_path: Path) -> None:
    facts = _describe(tmp_path, TypeHints())

    assert _types(facts) == [(ElementType.F32, "stores"), (ElementType.B32, "")]
    assert facts[0].argument == "out (kernarg +0)"


def test_regions_of_signature_have_its_types(tmp_path: Path) -> None:
    facts = _describe(tmp_path, TypeHints(signature="*fp32, *bf16, fp32"))

    assert _types(facts) == [(ElementType.F32, "signature"), (ElementType.BF16, "signature")]


def test_region_whose_stores_contradict_the_signature_stays_untyped(tmp_path: Path) -> None:
    facts = _describe(tmp_path, TypeHints(signature="*bf16,*fp32,fp32"))

    assert _types(facts) == [(ElementType.B32, ""), (ElementType.F32, "signature")]


def test_region_with_hint_of_the_user_has_its_type(tmp_path: Path) -> None:
    facts = _describe(tmp_path, TypeHints.parse(["x=u8", "0=bf16"]))

    assert _types(facts) == [(ElementType.BF16, "--dtype"), (ElementType.U8, "--dtype")]


def test_regions_of_mangled_kernel_have_types_of_its_parameters(tmp_path: Path) -> None:
    facts = _describe(tmp_path, TypeHints(), name="_Z5scalePfPKif")

    assert _types(facts) == [(ElementType.F32, "mangled name"), (ElementType.I32, "mangled name")]


def test_regions_of_metadata_with_type_names_have_them(tmp_path: Path) -> None:
    edit = ("{.name: x,", "{.name: x, .type_name: 'const half*',")
    facts = _describe(tmp_path, TypeHints(), edit)

    assert _types(facts)[1] == (ElementType.F16, "metadata")


def test_region_with_pointer_between_elements_stays_untyped(tmp_path: Path) -> None:
    facts = _describe(tmp_path, TypeHints(), pointer_offset=2)

    assert _types(facts)[0] == (ElementType.B32, "")


def test_region_of_float_atomics_is_marked(tmp_path: Path) -> None:
    edit = ("global_store_dword v1, v2, s[4:5]", "global_atomic_add_f32 v1, v2, s[4:5]")
    facts = _describe(tmp_path, TypeHints(), edit)

    assert [one.has_float_atomics for one in facts] == [True, False]


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        (TypeHints.parse(["y=f32"]), "no argument or region 'y'"),
        (TypeHints(signature="*fp32"), "1 arguments, the kernel takes 3"),
        (TypeHints(signature="i32,*fp32,fp32"), "'i32' is no pointer"),
    ],
)
def test_hint_that_does_not_fit_is_refused(tmp_path: Path, hints: TypeHints, message: str) -> None:
    edit = ("{.name: x,", "{.name: x2,")
    with pytest.raises(UsageError, match=message):
        _describe(tmp_path, hints, edit)


def test_hint_of_unknown_type_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown type 'f33'"):
        TypeHints.parse(["x=f33"])
