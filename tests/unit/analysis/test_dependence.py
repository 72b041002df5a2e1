from __future__ import annotations

import pytest
from instruction_lines import program_of

from asmevo.codeobject.analysis.dependence import BlockItem, find_order
from asmevo.codeobject.analysis.identity import is_identity
from asmevo.codeobject.analysis.memory_dependence import may_conflict, may_order_by_wait
from asmevo.codeobject.analysis.register import parse_registers


def order_of(text: str, live_out: str = "", *, is_entry_mask: bool = True) -> list[set[int]]:
    program = program_of(text + "\ns_endpgm")
    items = [
        BlockItem(id=at, effect=effect, is_entry_mask=is_entry_mask)
        for at, effect in enumerate(program.effects[:-1])
    ]
    return find_order(items, parse_registers(live_out))


def test_order_of_a_value_is_write_read_overwrite() -> None:
    before = order_of("v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v2, v1\nv_mov_b32_e32 v1, 1", "v1 v2")

    assert before == [set(), {0}, {0, 1}]


def test_order_of_unread_scc_results_is_free() -> None:
    before = order_of("s_add_u32 s0, s1, s2\ns_add_u32 s3, s4, s5", "s0 s3")

    assert before == [set(), set()]


def test_order_keeps_other_scc_writers_out_of_a_carry_chain() -> None:
    text = "s_add_u32 s0, s1, s2\ns_addc_u32 s3, s4, s5\ns_lshl_b32 s6, s6, 1"

    before = order_of(text, "s0 s3 s6")

    assert 0 in before[1]
    assert {0, 1} <= before[2]


def test_order_of_masked_writes_keeps_the_earlier_one_first() -> None:
    text = "v_mov_b32_e32 v1, 0\nv_mov_b32_e32 v1, 1"

    assert order_of(text, "v1", is_entry_mask=False)[1] == {0}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("global_load_dword v1, v[2:3], off", "global_load_dword v4, v[2:3], off", False),
        ("global_store_dword v[2:3], v1, off", "global_load_dword v4, v[6:7], off", True),
        ("global_store_dword v[2:3], v1, off", "s_load_dword s4, s[0:1], 0x0", True),
        ("global_store_dword v[2:3], v1, off", "ds_read_b32 v4, v5", False),
        ("global_store_dword v[2:3], v1, off", "flat_load_dword v4, v[6:7]", True),
        ("ds_write_b32 v1, v2", "ds_read_b32 v4, v1 offset:64", True),
        ("scratch_store_dword off, v1, s3", "global_load_dword v4, v[6:7], off", False),
        ("global_load_dword v1, v[2:3], off sc1", "global_load_dword v4, v[6:7], off", True),
        ("buffer_load_dword v6, s[8:11], 0 offen lds", "ds_read_b32 v4, v5", True),
        ("v_mov_b32_e32 v1, v2", "global_load_dword v4, v[6:7], off", False),
    ],
)
def test_accesses_conflict_unless_both_read_or_spaces_differ(
    first: str, second: str, expected: bool
) -> None:
    one, other = program_of(f"{first}\n{second}\ns_endpgm").effects[:2]

    assert may_conflict(one, other) is expected


def test_order_keeps_what_a_store_may_release_before_it() -> None:
    before = order_of("global_load_dword v1, v[8:9], off\nds_write_b32 v2, v3\nds_read_b32 v4, v2")
    assert before == [set(), {0}, {1}]

    before = order_of("ds_read_b32 v4, v2\nglobal_store_dword v[8:9], v3, off\nds_read_b32 v5, v2")
    assert before == [set(), {0}, set()]


def test_order_lets_nothing_cross_a_barrier() -> None:
    before = order_of("ds_write_b32 v1, v2\ns_barrier\nds_read_b32 v3, v4\nv_mov_b32_e32 v9, 0")

    assert before[1] == {0}
    assert before[2] == {0, 1}
    assert before[3] == set()


ADD = "v_add_f32_e32 v1, v2, v3\n"
DPP = "v_mov_b32_dpp v4, v1 row_shr:8 row_mask:{} bank_mask:0xf bound_ctrl:1\n"


SETREG = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, {}, {}), 2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v_mov_b32_e32 v1, v1", True),
        ("v_mov_b32_e32 v1, v2", False),
        (ADD + "v_max_f32_e32 v1, v1, v1", True),
        (ADD + DPP.format("0xf") + "v_max_f32_e32 v4, v4, v4", True),
        (ADD + DPP.format("0xa") + "v_max_f32_e32 v4, v4, v4", False),
        ("v_max_f32_e32 v1, v1, v1", False),
        ("v_and_b32_e32 v1, v2, v3\nv_max_f32_e32 v1, v1, v1", False),
        (ADD + "v_max_f32_e64 v1, v1, v1 clamp", False),
        (ADD + "v_max_f32_e64 v1, -v1, -v1", False),
        (ADD + "v_mov_b32_dpp v1, v1 row_shr:1", False),
        (ADD + "s_or_b64 exec, exec, s[0:1]\nv_max_f32_e32 v1, v1, v1", False),
        (ADD + "v_max_f32_e32 v1, v1, v2", False),
        ("v_mul_f32_e64 v1, v2, v3 div:2\nv_max_f32_e32 v1, v1, v1", False),
        ("v_max3_f32 v1, v2, v3, v4\nv_max_f32_e32 v1, v1, v1", False),
        (f"{SETREG.format(23, 1)}\n{ADD}v_max_f32_e32 v1, v1, v1", True),
        (f"{SETREG.format(4, 2)}\n{ADD}v_max_f32_e32 v1, v1, v1", False),
    ],
)
def test_identity_holds_only_for_self_moves_and_canonical_values(text: str, expected: bool) -> None:
    program = program_of(text + "\ns_endpgm")

    assert is_identity(program, len(program.instructions) - 2, denormals=3) is expected


def test_identity_is_denied_where_arithmetic_keeps_denormals_that_reads_flush() -> None:
    program = program_of(ADD + "v_max_f32_e32 v1, v1, v1\ns_endpgm")

    assert [is_identity(program, 1, denormals=mode) for mode in range(4)] == [
        True,
        True,
        False,
        True,
    ]


STORE = "global_store_dword v[2:3], v1, off"


@pytest.mark.parametrize(
    ("first", "second", "arch", "expected"),
    [
        ("global_load_lds_dword v[2:3], off", "ds_read_b32 v4, v5", "gfx942", True),
        ("ds_read_b32 v4, v5", "global_load_lds_dword v[2:3], off", "gfx942", True),
        ("global_load_lds_dword v[2:3], off", "s_endpgm", "gfx942", True),
        ("global_load_dword v1, v[2:3], off", "s_endpgm", "gfx942", False),
        ("global_store_dword v[2:3], v1, off", "s_load_dword s0, s[2:3], 0x0", "gfx942", True),
        (STORE, "global_load_dword v1, v[2:3], off", "gfx942", False),
        (STORE, STORE, "gfx942", False),
        (STORE, STORE, "gfx90a", True),
        ("global_load_dword v1, v[2:3], off", "global_store_dword v[2:3], v6, off", "gfx90a", True),
        ("global_store_dword v[2:3], v1, off", "ds_write_b32 v1, v2", "gfx942", True),
        ("global_load_dword v1, v[2:3], off", "ds_write_b32 v1, v2", "gfx942", False),
        ("flat_store_dword v[2:3], v1", "ds_read_b32 v1, v2", "gfx942", True),
    ],
)  # fmt: skip
def test_wait_may_order_accesses_that_share_no_register(
    first: str, second: str, arch: str, expected: bool
) -> None:
    one, other = program_of(f"{first}\n{second}\ns_endpgm").effects[:2]

    assert may_order_by_wait(one, other, arch) is expected
