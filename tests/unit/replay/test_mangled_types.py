from __future__ import annotations

import pytest

from asmevo.replay.elements import ElementType
from asmevo.replay.mangled_types import read_pointer_types

_F32, _I32 = ElementType.F32, ElementType.I32


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("_Z5scalePfPKff", (_F32, _F32, None)),
        ("_Z3addPfPKfS1_i", (_F32, _F32, _F32, None)),
        ("_Z3addPKfS0_Pfi.kd", (_F32, _F32, _F32, None)),
        (
            "_ZN3lib4castEPDF16_PK14__hip_bfloat16S3_",
            (ElementType.F16, ElementType.BF16, ElementType.BF16),
        ),
        ("_Z6gatherPPfPKi", (None, _I32)),
        ("_Z4voidPvPb", (None, None)),
    ],
)
def test_mangled_name_of_plain_function_gives_pointer_types(
    name: str, types: tuple[ElementType | None, ...]
) -> None:
    assert read_pointer_types(name) == types


@pytest.mark.parametrize(
    "name", ["softmax_kernel", "_Z3addIfEvPKT_S2_PS0_i", "_Z99x", "_Z1fP", "_Z1fS9_", "_Z"]
)
def test_mangled_name_not_understood_gives_no_answer(name: str) -> None:
    assert read_pointer_types(name) is None
