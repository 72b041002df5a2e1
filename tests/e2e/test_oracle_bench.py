"""The oracle bench's own judgement: what a broken kernel does, found out without the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from classify import Behaviour, Classifier
from small_bundle import Buffer, write_small_bundle
from wrong_edits import find_mutants

from asmevo.capture.bundle import open_bundle
from asmevo.codeobject import toolchain
from asmevo.replay.variation import write_variants

_SOURCE = (Path(__file__).parents[1] / "fixtures" / "scale.s").read_text()
_MULTIPLY = "  v_mul_f32_e32 v2, s8, v2\n"
_STORE = "  global_store_dword v1, v2, s[4:5]\n"
# Items beyond the count, which stands in place of the factor, store nothing.
_COUNTED = (
    "  v_lshrrev_b32_e32 v3, 2, v1\n  v_cmp_gt_i32_e32 vcc, s8, v3\n"
    "  s_and_b64 exec, exec, vcc\n  v_add_u32_e32 v2, 7, v2\n"
)


def _assemble(*edits: tuple[str, str]) -> bytes:
    text = _SOURCE.replace(_MULTIPLY, _COUNTED)
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return toolchain.link(toolchain.assemble(text, "gfx942"))


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """out[i] = x[i] + 7 for i < 200."""
    return write_small_bundle(
        tmp_path_factory.mktemp("bench") / "scale.aeb",
        kernel="scale",
        code_object=_assemble(),
        buffers=[
            Buffer(address=0x7E0000000000, before=bytes(800)),
            Buffer(address=0x7E0000002000, before=np.arange(256, dtype=np.int32).tobytes()),
        ],
        scalars=(200).to_bytes(4, "little"),
        grid=(4, 1, 1),
    )


@pytest.fixture(scope="module")
def classifier(captured: Path) -> Iterator[Classifier]:
    held_out = write_variants(captured, captured.parent, limit=1)
    with Classifier(captured, tuple(one.path for one in held_out)) as made:
        yield made


@pytest.mark.parametrize(
    ("edits", "behaviour"),
    [
        ([], Behaviour.SAME),
        ([("v_add_u32_e32 v2, 7", "v_add_u32_e32 v2, 8")], Behaviour.VALUE),
        ([("s_and_b64 exec, exec, vcc", "s_nop 0")], Behaviour.OUTSIDE),
        (
            [("v_cmp_gt_i32_e32 vcc, s8", "s_movk_i32 s8, 0xc8\n  v_cmp_gt_i32_e32 vcc, s8")],
            Behaviour.SIZE,
        ),
        (
            [("v_add_u32_e32 v2, 7, v2", "v_add_u32_e32 v2, 7, v2\n  v_max_i32_e32 v2, v2, v7")],
            Behaviour.VALUE,
        ),
        (
            [
                (
                    "v_add_u32_e32 v2, 7, v2",
                    "v_add_u32_e32 v2, 7, v2\n  v_cmp_u_f32_e32 vcc, v7, v7\n"
                    "  s_nop 1\n  v_addc_co_u32_e32 v2, vcc, -1, v2, vcc",
                )
            ],
            Behaviour.UNWRITTEN,
        ),
        ([("  s_waitcnt vmcnt(0)\n", "")], Behaviour.ORDER),
        ([(_STORE, "  s_mov_b32 s5, 0\n" + _STORE)], Behaviour.FAULT),
        (
            [(_STORE, _STORE + ".Lhang:\n  s_add_u32 s9, s9, 1\n  s_branch .Lhang\n")],
            Behaviour.FAULT,
        ),
    ],
)
def test_mutant_is_classified_by_what_it_does(
    classifier: Classifier, edits: list[tuple[str, str]], behaviour: Behaviour
) -> None:
    assert classifier.classify(_assemble(*edits)) is behaviour


def test_mutants_of_a_kernel_are_of_the_kinds_that_fit_it(captured: Path) -> None:
    with open_bundle(captured) as bundle:
        mutants = list(find_mutants(bundle, 1))

    kinds = {mutant.mutation for mutant in mutants}
    assert {"off-by-one bound", "dropped wait", "captured size only"} <= kinds
    assert "lost barrier" not in kinds
    assert len({mutant.code_object for mutant in mutants}) == len(mutants)
