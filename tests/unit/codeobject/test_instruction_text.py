"""Texts that edits may and may not hold."""

from __future__ import annotations

import pytest

from asmevo.codeobject.instruction_text import normalize_text, parse_instruction
from asmevo.errors import UsageError


@pytest.mark.parametrize(
    "text",
    [
        "s_endpgm",
        "s_nop 15",
        "s_setprio 3",
        "  v_add_f32_e64 v0, |v1|, -v2 clamp  ",
        "v_mov_b32_dpp v0, v1 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0xf",
        'ds_swizzle_b32 v1, v2 offset:swizzle(BITMASK_PERM,"00pip")',
        "s_waitcnt vmcnt(0) & lgkmcnt(0)",
        "buffer_load_dword v1, v2, s[4:7], 0 offen offset:4095",
        "v_mul_f32_e32 v0, 0.5, v0",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0xf",
    ],
)
def test_parse_plain_instruction_keeps_it(text: str) -> None:
    parsed = parse_instruction(text, identifier=7, known=())

    assert parsed.text == " ".join(text.split())
    assert (parsed.id, parsed.offset, parsed.data, parsed.target) == (7, -1, b"", None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".long 0",
        "label: s_nop 0",
        "s_nop 0\ns_nop 0",
        "s_nop 0 ; comment",
        "s_nop 0 // comment",
        "s_nop 0 # comment",
        "s_nop 0 /* */",
        "x = 1",
        "s_nop " + "0" * 500,
        "S_NOP 0",
        "v_mov_b32 v0, \\reg",
        "s_nop \x00",
    ],
)
def test_parse_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not one plain instruction"):
        parse_instruction(text, identifier=0, known=())


@pytest.mark.parametrize(
    "text",
    [
        "s_nop 16",
        "s_nop -1",
        "s_nop 0x10",
        "s_setprio 4",
        "s_sleep 128",
        "buffer_load_dword v1, v2, s[4:7], 0 offen offset:4096",
        "buffer_store_dword v1, v2, s[4:7], 0 offen offset:-4",
        "tbuffer_load_format_x v1, v2, s[4:7], 0 offen offset:5000",
    ],
)
def test_parse_immediate_that_llvm_would_mask_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is outside 0 to"):
        parse_instruction(text, identifier=0, known=())


def test_parse_branch_needs_a_known_label() -> None:
    assert parse_instruction("s_branch .L4", identifier=9, known={4}).target == 4
    for operands in (".L5", "4", "elsewhere", ".Lend"):
        with pytest.raises(UsageError, match="must name"):
            parse_instruction(f"s_branch {operands}", identifier=9, known={4})


def test_parse_label_outside_a_branch_is_refused() -> None:
    with pytest.raises(UsageError, match="only a branch may name a label"):
        parse_instruction("s_mov_b32 s0, .L4", identifier=9, known={4})


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("v0, 0x10, v1", "v0, 16, v1", True),
        ("s0, 0xffffffff", "s0, -1", True),
        ("v0,v1 , v2", "v0, v1, v2", True),
        ("v[0:1], v2, s[4:5]", "v[0:1], v2, s[4:5]", True),
        ("v0, v1 offset:8", "v0, v1 offset:4104", False),
        ("v0, v1 offset:0x0 sc0", "v0, v1 sc0", True),
        ("v0, v1 offset0:0 offset1:1", "v0, v1 offset1:1", True),
        ("v0, v1 offset:10", "v0, v1", False),
        ("v0, v1", "v1, v0", False),
        ("v0, 1.0", "v0, 1", False),
        ("v0, -v1", "v0, v1", False),
    ],
)
def test_normalize_joins_spellings_and_nothing_else(first: str, second: str, same: bool) -> None:
    one, other = (normalize_text("v_mov_b32_e32", operands) for operands in (first, second))

    assert (one == other) is same


def test_normalize_drops_the_encoding_only_when_asked() -> None:
    assert normalize_text("v_add_f32_e32", "v0, v1, v2", drop_suffix=True).startswith("v_add_f32 ")
    assert normalize_text("v_add_f32_e32", "v0, v1, v2").startswith("v_add_f32_e32 ")
    assert normalize_text("s_waitcnt", "vmcnt(0) & lgkmcnt(0)") == normalize_text(
        "s_waitcnt", "vmcnt(0) lgkmcnt(0)"
    )


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("vmcnt(63)", "vmcnt(63) expcnt(7) lgkmcnt(15)", True),
        ("lgkmcnt(0) vmcnt(0)", "vmcnt(0) & lgkmcnt(0)", True),
        ("0xc07f", "lgkmcnt(0)", True),
        ("0", "vmcnt(0) expcnt(0) lgkmcnt(0)", True),
        ("vmcnt(16)", "0x4f70", True),
        ("vmcnt(1)", "vmcnt(17)", False),
        ("vmcnt(1)", "vmcnt(1) lgkmcnt(14)", False),
        ("expcnt(0)", "lgkmcnt(0)", False),
    ],
)
def test_normalize_waits_by_their_counters(first: str, second: str, same: bool) -> None:
    assert (normalize_text("s_waitcnt", first) == normalize_text("s_waitcnt", second)) is same
