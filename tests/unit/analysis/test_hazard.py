from __future__ import annotations

import pytest
from instruction_lines import program_of

from asmevo.codeobject.analysis.control_flow import AnalysisRefusal
from asmevo.codeobject.analysis.hazard import HazardDistances, find_hazards

MFMA = "v_mfma_f32_32x32x8_bf16 v[0:15], v[16:17], v[18:19], v[0:15]"
SMALL_MFMA = "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[16:17], v[18:19], v[0:3]"
F32_MFMA = "v_mfma_f32_16x16x4_f32 v[0:3], v16, v18, v[0:3]"


# Producer, consumer, and wait states on gfx942 and gfx950 as LLVM 22 enforces them.
@pytest.mark.parametrize(
    ("producer", "consumer", "gfx942", "gfx950"),
    [
        ("v_readlane_b32 s8, v1, 0", "buffer_load_dword v2, v3, s[8:11], 0 offen", 5, 5),
        ("v_cmp_eq_u32_e32 vcc, v1, v2", "v_cndmask_b32_e32 v3, v4, v5, vcc", 2, 2),
        ("v_readlane_b32 s8, v1, 0", "v_readlane_b32 s9, v2, s8", 4, 4),
        ("v_cmp_eq_u32_e32 vcc, v1, v2", "v_div_fmas_f32 v3, v4, v5, v6", 4, 4),
        ("v_mov_b32_e32 v1, v2", "v_readfirstlane_b32 s0, v1", 1, 1),
        ("v_cmpx_eq_u32_e32 vcc, v1, v2", "v_readlane_b32 s0, v3, 0", 4, 4),
        ("v_mov_b32_e32 v1, v2", "v_mov_b32_dpp v3, v1 row_shr:8 row_mask:0xf bank_mask:0xf", 2, 2),
        ("v_exp_f32_e32 v1, v2", "v_add_f32_e32 v3, v1, v1", 1, 1),
        ("v_exp_f32_e32 v1, v2", "v_log_f32_e32 v3, v1", 0, 0),
        ("v_cvt_scalef32_pk_fp8_f32 v0, v1, v2, v3", "v_add_u32_e32 v0, v0, v4", 1, 1),
        ("v_cvt_scalef32_sr_pk_fp4_f32 v0, v[1:2], v2, v3", "v_add_u32_e32 v0, v0, v4", 1, 1),
        ("v_cvt_scalef32_pk_f32_fp8 v[0:1], v0, v1", "v_add_f32_e32 v0, v0, v2", 0, 0),
        ("global_store_dwordx4 v[8:9], v[0:3], off", "v_mov_b32_e32 v2, 0", 2, 2),
        ("global_store_dwordx2 v[8:9], v[0:1], off", "v_mov_b32_e32 v1, 0", 0, 0),
        ("buffer_store_dwordx4 v[0:3], v8, s[4:7], s9 offen", "v_mov_b32_e32 v2, 0", 0, 0),
        ("s_mov_b32 m0, s1", "buffer_load_dword v6, s[8:11], 0 offen lds", 1, 1),
        ("s_mov_b32 m0, s1", "ds_read_b32 v1, v2", 0, 0),
        ("v_mov_b32_e32 v16, v2", MFMA, 2, 2),
        (MFMA, "v_add_f32_e32 v20, v0, v0", 11, 12),
        (MFMA, "global_store_dword v[20:21], v3, off", 11, 12),
        (MFMA, "v_mov_b32_e32 v5, 0", 11, 12),
        (MFMA, MFMA, 0, 0),
        (MFMA, "v_mfma_f32_32x32x8_bf16 v[20:35], v[0:1], v[18:19], v[20:35]", 11, 12),
        (MFMA, "v_mfma_f32_32x32x8_bf16 v[8:23], v[40:41], v[42:43], v[8:23]", 9, 10),
        (
            "v_mfma_f32_32x32x8_bf16 v[20:35], v[16:17], v[18:19], v[0:15]",
            "v_mov_b32_e32 v5, 0",
            7,
            7,
        ),
        (MFMA, "v_mov_b32_e32 v16, 0", 0, 0),
        (SMALL_MFMA, "v_add_f32_e32 v20, v0, v0", 5, 5),
        (SMALL_MFMA, SMALL_MFMA, 2, 2),
        (F32_MFMA, "v_add_f32_e32 v20, v0, v0", 10, 10),
        ("v_dot2_f32_f16 v1, v2, v3, v4", "v_add_f32_e32 v5, v1, v1", 3, 3),
        ("v_pk_add_f32 v[2:3], v[2:3], v[4:5]", "v_add_f32_e32 v6, v3, v3", 1, 1),
        ("ds_read_b32 v1, v2", "v_mov_b32_dpp v3, v1 row_shr:8 row_mask:0xf bank_mask:0xf", 2, 2),
        ("v_dot2_f32_f16 v1, v2, v3, v4", "v_dot2_f32_f16 v1, v2, v3, v1", 1, 1),
        ("v_dot2c_f32_f16_e32 v1, v2, v3", "v_dot2c_f32_f16_e32 v1, v2, v3", 0, 0),
        ("v_dot2_f32_f16 v1, v2, v3, v4", "ds_write_b32 v5, v1", 3, 3),
        ("v_mov_b32_e32 v1, v2", "v_add_co_u32_dpp v3, vcc, v1, v4 row_shr:8", 2, 2),
        ("v_mov_b32_e32 v1, v2", "v_add_f32_dpp v3, v4, v1 row_shr:8", 2, 2),
        ("v_mov_b32_e32 v1, v2", "v_mov_b32_dpp v1, v4 row_shr:8", 2, 2),
        ("v_cmpx_eq_u32_e32 vcc, v1, v2", "global_load_dword v3, v[4:5], off", 5, 5),
        ("v_pk_add_f16 v1, v2, v3", "v_mov_b32_e32 v1, v4", 1, 1),
        ("v_exp_f32_e32 v1, v2", "buffer_load_dword v1, s[8:11], 0 offen lds", 1, 1),
        ("global_store_dwordx4 v[20:21], v[0:3], off", SMALL_MFMA, 2, 2),
        (
            "v_mfma_f32_32x32x8_bf16 v[20:35], v[16:17], v[18:19], v[0:15]",
            "global_load_dword v5, v[40:41], off",
            7,
            7,
        ),
    ],
)
def test_distance_is_exactly_what_is_required(
    producer: str, consumer: str, gfx942: int, gfx950: int
) -> None:
    for arch, states in (("gfx942", gfx942), ("gfx950", gfx950)):
        fillers = "s_nop 0\n" * states
        enough = program_of(f"{producer}\n{fillers}{consumer}\ns_endpgm")
        assert not find_hazards(enough, arch)
        if states:
            fillers = "s_nop 0\n" * (states - 1)
            short = program_of(f"{producer}\n{fillers}{consumer}\ns_endpgm")
            (hazard,) = find_hazards(short, arch)
            assert (hazard.required, hazard.actual) == (states, states - 1)


@pytest.mark.parametrize(
    ("producer", "consumer", "states"),
    [
        ("v_mfma_f32_32x32x2f32 v[20:35], v16, v18, v[0:15]", "v_mov_b32_e32 v5, 0", 15),
        ("v_mfma_f64_4x4x4f64 v[0:1], v[2:3], v[4:5], v[6:7]", "ds_read_b32 v8, v9", 1),
        ("global_store_dwordx4 v[8:9], v[0:3], off", "v_mov_b32_e32 v2, 0", 1),
    ],
)
def test_distance_on_gfx90a_is_what_is_required(producer: str, consumer: str, states: int) -> None:
    fillers = "s_nop 0\n" * (states - 1)
    text = f"{producer}\n{fillers}{consumer}\ns_endpgm"

    (hazard,) = find_hazards(program_of(text), "gfx90a")

    assert hazard.required == states


def test_nop_counts_one_more_than_its_operand() -> None:
    text = "v_mov_b32_e32 v1, v2\ns_nop {}\nv_mov_b32_dpp v3, v1 row_shr:8\ns_endpgm"

    assert find_hazards(program_of(text.format(0)), "gfx942")
    assert not find_hazards(program_of(text.format(1)), "gfx942")


def test_hazard_over_the_back_edge_is_found() -> None:
    program = program_of(
        "head:\nv_readfirstlane_b32 s0, v1\nv_nop\nv_mov_b32_e32 v1, v2\n"
        "s_nop 0\ns_cbranch_scc1 head\ns_endpgm"
    )
    assert not find_hazards(program, "gfx942")

    program = program_of(
        "head:\nv_mov_b32_dpp v3, v1 row_shr:8\nv_mov_b32_e32 v1, v2\ns_cbranch_scc1 head\ns_endpgm"
    )
    (hazard,) = find_hazards(program, "gfx942")
    assert (hazard.producer, hazard.consumer, hazard.actual) == (1, 0, 1)


def test_shortest_path_decides() -> None:
    program = program_of(
        "v_mov_b32_e32 v1, v2\ns_cbranch_scc1 join\ns_nop 7\njoin:\n"
        "v_mov_b32_dpp v3, v1 row_shr:8\ns_endpgm"
    )

    (hazard,) = find_hazards(program, "gfx942")

    assert hazard.actual == 1


def test_unknown_chip_is_refused() -> None:
    with pytest.raises(AnalysisRefusal, match="gfx1100"):
        find_hazards(program_of("s_endpgm"), "gfx1100")


@pytest.mark.parametrize(
    ("text", "slack"),
    [
        ("v_mov_b32_e32 v1, v2\ns_nop 1\nv_mov_b32_dpp v3, v1 row_shr:8", 0),
        ("v_mov_b32_e32 v1, v2\ns_nop 4\nv_mov_b32_dpp v3, v1 row_shr:8", 3),
        ("v_mov_b32_e32 v1, v2\ns_nop 1\nv_nop\nv_mov_b32_dpp v3, v1 row_shr:8", 1),
        ("v_mov_b32_e32 v1, v2\ns_nop 1\ns_cbranch_scc1 join\nv_nop\njoin:\n"
         "v_mov_b32_dpp v3, v1 row_shr:8", 1),
        ("v_nop\ns_nop 3\nv_mov_b32_dpp v3, v1 row_shr:8", 4),
    ],
)  # fmt: skip
def test_slack_is_what_no_hazard_across_needs(text: str, slack: int) -> None:
    program = program_of(text + "\ns_endpgm")
    position = next(at for at, one in enumerate(program.instructions) if one.mnemonic == "s_nop")

    assert HazardDistances(program, "gfx942").count_slack(position) == slack


@pytest.mark.parametrize(
    ("text", "has_fault"),
    [
        ("s_load_dword s4, s[0:1], 0x0\ns_load_dword s5, s[0:1], 0x4", False),
        ("s_load_dword s0, s[0:1], 0x0", False),
        ("s_load_dword s0, s[0:1], 0x0\ns_load_dword s5, s[2:3], 0x4", True),
        ("s_load_dword s4, s[0:1], 0x0\ns_load_dword s0, s[2:3], 0x4", True),
        ("s_load_dword s0, s[0:1], 0x0\ns_nop 0\ns_load_dword s5, s[2:3], 0x4", False),
        ("global_load_dword v1, v[8:9], off\nglobal_load_dword v8, v[2:3], off", True),
        ("global_load_dword v1, v[8:9], off\nds_read_b32 v8, v5", False),
        ("global_load_dword v1, v[8:9], off\nglobal_store_dword v[2:3], v4, off", True),
        ("global_store_dword v[2:3], v4, off\nglobal_store_dword v[2:3], v4, off", False),
    ],
)
def test_replayed_run_must_not_write_what_it_reads(text: str, has_fault: bool) -> None:
    hazards = find_hazards(program_of(text + "\ns_endpgm"), "gfx942")

    assert [one.rule for one in hazards] == ["xnack-clause"] * has_fault


def test_nop_that_parts_two_runs_has_no_slack() -> None:
    program = program_of(
        "s_load_dword s0, s[0:1], 0x0\ns_nop 0\ns_load_dword s5, s[2:3], 0x4\ns_endpgm"
    )

    assert HazardDistances(program, "gfx942").count_slack(1) == 0
