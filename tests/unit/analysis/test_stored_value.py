"""Types that the stores of a small kernel write, for different ways to compute what is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from asmevo.codeobject import toolchain
from asmevo.codeobject.analysis.control_flow import read_program
from asmevo.codeobject.analysis.stored_value import StoredType, StoreFacts, analyse_stores
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.recover import recover

_SOURCE = (Path(__file__).parents[2] / "fixtures" / "scale.s").read_text()
_MULTIPLY = "  v_mul_f32_e32 v2, s8, v2\n"
_STORE = "  global_store_dword v1, v2, s[4:5]\n"
_ROUND = "  s_movk_i32 s9, 0x7fff\n  v_bfe_u32 v3, v2, 16, 1\n  v_add3_u32 v2, v2, v3, s9\n"


def _analyse(*edits: tuple[str, str]) -> StoreFacts:
    text = _SOURCE
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    data = toolchain.link(toolchain.assemble(text, "gfx942"))
    listing = recover(data)
    (kernel,) = CodeObject.read(data).kernels
    entry = listing.kernels[0].first_id
    return analyse_stores(read_program(listing.kernel_instructions("scale"), [entry]), kernel)


@pytest.mark.parametrize(
    ("compute", "store", "stored"),
    [
        (_MULTIPLY, _STORE, StoredType.F32),
        ("", _STORE, StoredType.OPAQUE),
        ("  v_add_u32_e32 v2, s8, v2\n", _STORE, StoredType.I32),
        (
            _MULTIPLY + "  v_cvt_f16_f32_e32 v2, v2\n",
            "  global_store_short v1, v2, s[4:5]\n",
            StoredType.F16,
        ),
        (
            _MULTIPLY + _ROUND,
            "  global_store_short_d16_hi v1, v2, s[4:5]\n",
            StoredType.BF16,
        ),
        (
            _MULTIPLY + _ROUND + "  v_lshrrev_b32_e32 v2, 16, v2\n",
            "  global_store_short v1, v2, s[4:5]\n",
            StoredType.BF16,
        ),
        (
            _MULTIPLY + "  v_cvt_pkrtz_f16_f32 v2, v2, v2\n  v_mov_b32_e32 v3, v2\n",
            "  global_store_dwordx2 v1, v[2:3], s[4:5]\n",
            StoredType.F16,
        ),
        (
            "  v_cvt_f64_f32_e32 v[2:3], v2\n",
            "  global_store_dwordx2 v1, v[2:3], s[4:5]\n",
            StoredType.F64,
        ),
        # An f32 and an integer beside each other have no common type.
        (
            _MULTIPLY + "  v_add_u32_e32 v3, s8, v0\n",
            "  global_store_dwordx2 v1, v[2:3], s[4:5]\n",
            StoredType.OPAQUE,
        ),
        # Through LDS, which holds nothing but f32.
        (
            _MULTIPLY
            + "  ds_write_b32 v1, v2\n  s_waitcnt lgkmcnt(0)\n  ds_read_b32 v2, v1\n"
            + "  s_waitcnt lgkmcnt(0)\n",
            _STORE,
            StoredType.F32,
        ),
        (
            _MULTIPLY
            + "  ds_write_b32 v1, v2\n  ds_write_b32 v1, v1 offset:512\n  s_waitcnt lgkmcnt(0)\n"
            + "  ds_read_b32 v2, v1\n  s_waitcnt lgkmcnt(0)\n",
            _STORE,
            StoredType.OPAQUE,
        ),
        # One path stores an f32, the other what it loaded.
        (
            "  s_cmp_eq_u32 s8, 0\n  s_cbranch_scc1 .Lskip\n" + _MULTIPLY + ".Lskip:\n",
            _STORE,
            StoredType.OPAQUE,
        ),
    ],
)
def test_store_has_type_of_what_computed_its_value(
    compute: str, store: str, stored: StoredType
) -> None:
    (found,) = _analyse((_MULTIPLY, compute), (_STORE, store)).stores

    assert found.type is stored
    assert {0, 4} <= found.arguments
    assert not found.arguments & {8, 12, 16}


def test_store_through_another_argument_names_it() -> None:
    (found,) = _analyse(("v1, v2, s[4:5]", "v1, v2, s[6:7]")).stores

    assert found.arguments == {8, 12}


def test_float_atomic_is_marked() -> None:
    (found,) = _analyse((_STORE, "  global_atomic_add_f32 v1, v2, s[4:5]\n")).stores

    assert found.is_float_atomic
    assert found.type is StoredType.F32


def test_kernarg_reads_name_every_dword() -> None:
    facts = _analyse()

    assert facts.kernarg_dwords == {0, 4, 8, 12, 16}
    assert not facts.reads_kernarg_elsewhere


def test_kernarg_read_at_unknown_offset_is_seen() -> None:
    facts = _analyse(("  s_load_dword s8, s[0:1], 0x10\n", "  s_load_dword s8, s[0:1], s2\n"))

    assert facts.reads_kernarg_elsewhere
