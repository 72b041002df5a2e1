"""Jump tables and computed calls: what may be moved under, and what blocks edits."""

from __future__ import annotations

import pytest
from edited_object import build_kernel, find

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover

ADDRESS = [
    "s_getpc_b64 s[4:5]",
    "s_add_u32 s4, s4, .Lcase@rel32@lo+4",
    "s_addc_u32 s5, s5, .Lcase@rel32@hi+12",
]
CASES = ["s_setpc_b64 s[4:5]", ".Lcase:", "s_nop 1", "s_endpgm"]


@pytest.mark.parametrize(
    "between",
    [
        ["s_lshl_b32 s6, s6, 3", "s_add_u32 s4, s4, s6", "s_addc_u32 s5, s5, 0"],
        ["s_add_u32 s8, s4, s6", "s_addc_u32 s9, s5, 0", "s_mov_b64 s[4:5], s[8:9]"],
        ["s_sub_u32 s4, s4, s6", "s_cmp_eq_u32 s4, 0"],
    ],
)
def test_jump_table_of_distances_blocks_edits(between: list[str]) -> None:
    listing = recover(build_kernel([*ADDRESS, *between, *CASES], sgprs=16))

    assert "goes to an address that is computed" in listing.edit_blockers[0]


@pytest.mark.parametrize(
    "between",
    [
        [],
        ["s_load_dwordx2 s[4:5], s[4:5], 0x0", "s_waitcnt lgkmcnt(0)"],
        ["s_mov_b64 s[8:9], s[4:5]", "s_lshl_b32 s6, s6, 3", "s_mov_b64 s[4:5], s[8:9]"],
        ["v_readlane_b32 s4, v1, 0", "v_readlane_b32 s5, v1, 1"],
    ],
)
def test_jump_to_a_symbol_or_a_pointer_does_not(between: list[str]) -> None:
    listing = recover(build_kernel([*ADDRESS, *between, *CASES], sgprs=16))

    assert listing.edit_blockers == ()


def test_jump_table_of_pointers_follows_its_code() -> None:
    table = (
        ".data\n.globl table\n.protected table\n.p2align 3\n.type table,@object\ntable:\n"
        ".quad .Lfirst\n.quad .Lsecond\n.size table, 16\n.text\n"
    )
    code = [
        "s_getpc_b64 s[4:5]",
        "s_add_u32 s4, s4, table@rel32@lo+4",
        "s_addc_u32 s5, s5, table@rel32@hi+12",
        "s_load_dwordx2 s[4:5], s[4:5], 0x8",
        "s_waitcnt lgkmcnt(0)",
        "s_setpc_b64 s[4:5]",
        ".Lfirst:",
        "s_nop 1",
        "s_endpgm",
        ".Lsecond:",
        "s_nop 2",
        "s_endpgm",
    ]
    listing = recover(build_kernel(code, functions=table, sgprs=16))
    assert listing.edit_blockers == ()

    edited = listing.insert_after(find(listing, "s_nop 1"), ["s_nop 5"] * 9)
    rebuilt = CodeObject.read(rebuild_listing(edited))

    text = rebuilt.text
    goals = sorted(one.addend - text.address for one in rebuilt.relocations)
    first, second = (
        listing.instruction(find(listing, name)).data for name in ("s_nop 1", "s_nop 2")
    )
    assert [text.data[goal : goal + 4] for goal in goals] == [first, second]
