from __future__ import annotations

import pytest
from small_kernels import apply_and_rebuild, only_proposal, propose, texts_of, view_of

from asmevo.optimizer.gate.static import find_static_faults
from asmevo.optimizer.kernel_view import view_kernel
from asmevo.optimizer.mutators import MUTATORS
from asmevo.optimizer.mutators.block_schedule import BlockSchedule, Policy
from asmevo.optimizer.mutators.dead_code import DeadCode
from asmevo.optimizer.mutators.hoisted_load import HoistedLoad
from asmevo.optimizer.mutators.implied_wait import ImpliedWait
from asmevo.optimizer.mutators.merged_wait import MergedWait
from asmevo.optimizer.mutators.relaxed_wait import RelaxedWait
from asmevo.optimizer.mutators.shrunk_nop import ShrunkNop
from asmevo.optimizer.mutators.sunk_wait import SunkWait
from asmevo.optimizer.proposal import apply_edits

LOAD = "global_load_dword {}, v[8:9], off\n"
STORE = "global_store_dword v[10:11], {}, off\n"


def test_implied_wait_is_deleted() -> None:
    body = LOAD.format("v1") + "s_waitcnt vmcnt(0)\nv_mov_b32 v2, v1\ns_waitcnt vmcnt(0)\n"
    body += STORE.format("v2")

    proposal = only_proposal(ImpliedWait(), body)

    assert texts_of(apply_and_rebuild(body, [proposal])).count("s_waitcnt vmcnt(0)") == 1


def test_implied_half_of_a_wait_is_deleted() -> None:
    body = LOAD.format("v1") + "s_waitcnt vmcnt(0) lgkmcnt(0)\n" + STORE.format("v1")

    proposal = only_proposal(ImpliedWait(), body)

    assert "s_waitcnt vmcnt(0)" in texts_of(apply_and_rebuild(body, [proposal]))


def test_wait_that_one_path_needs_is_not_implied() -> None:
    body = (
        "s_cbranch_scc0 .Ljoin\n"
        + LOAD.format("v1")
        + ".Ljoin:\ns_waitcnt vmcnt(0)\n"
        + STORE.format("v1")
    )

    assert not propose(ImpliedWait(), body)


def test_wait_that_the_back_edge_needs_is_not_implied() -> None:
    body = ".Lhead:\ns_waitcnt vmcnt(0)\nv_mov_b32 v2, v1\n" + LOAD.format("v1")
    body += "s_cbranch_scc1 .Lhead\n"

    assert not propose(ImpliedWait(), body)


def test_count_is_relaxed_to_what_the_use_needs() -> None:
    body = LOAD.format("v1") + LOAD.format("v2") + "s_waitcnt vmcnt(0)\nv_mov_b32 v3, v1\n"
    body += "s_waitcnt vmcnt(0)\nv_add_u32 v3, v3, v2\n" + STORE.format("v3")

    proposal = only_proposal(RelaxedWait(), body)

    texts = texts_of(apply_and_rebuild(body, [proposal]))
    assert [text for text in texts if "waitcnt" in text] == [
        "s_waitcnt vmcnt(1)",
        "s_waitcnt vmcnt(0)",
    ]


def test_count_in_front_of_a_barrier_is_not_relaxed() -> None:
    body = "ds_write_b32 v1, v2\ns_waitcnt lgkmcnt(0)\ns_barrier\nds_read_b32 v3, v4\n"
    body += "s_waitcnt lgkmcnt(0)\n" + STORE.format("v3")

    assert not propose(RelaxedWait(), body)


def test_count_with_scalar_loads_outstanding_is_not_relaxed() -> None:
    body = "s_load_dword s4, s[0:1], 0x0\ns_load_dword s5, s[0:1], 0x4\ns_waitcnt lgkmcnt(0)\n"
    body += "v_mov_b32 v1, s4\nv_mov_b32 v2, s5\n" + STORE.format("v1")

    assert not propose(RelaxedWait(), body)


def test_wait_for_what_nobody_uses_is_deleted() -> None:
    body = STORE.format("v1") + "s_waitcnt vmcnt(0)\n" + STORE.format("v2")

    proposal = only_proposal(RelaxedWait(), body)

    assert "waitcnt" not in " ".join(texts_of(apply_and_rebuild(body, [proposal])))


def test_wait_sinks_to_the_first_use() -> None:
    body = LOAD.format("v1") + "s_waitcnt vmcnt(0)\nv_mov_b32 v3, v4\nv_mov_b32 v5, v4\n"
    body += "v_add_u32 v3, v3, v1\n" + STORE.format("v3")

    proposal = only_proposal(SunkWait(), body)

    texts = texts_of(apply_and_rebuild(body, [proposal]))
    assert texts.index("s_waitcnt vmcnt(0)") == 3


def test_wait_that_sinks_past_a_load_counts_it() -> None:
    body = LOAD.format("v1") + "s_waitcnt vmcnt(0)\n" + LOAD.format("v2") + "v_mov_b32 v3, v1\n"
    body += "s_waitcnt vmcnt(0)\nv_add_u32 v3, v3, v2\n" + STORE.format("v3")

    proposal = only_proposal(SunkWait(), body)

    assert texts_of(apply_and_rebuild(body, [proposal]))[2] == "s_waitcnt vmcnt(1)"


@pytest.mark.parametrize("stopper", ["s_barrier", "global_atomic_add v[12:13], v4, off"])
def test_wait_does_not_sink_past_what_synchronises(stopper: str) -> None:
    body = LOAD.format("v1") + f"s_waitcnt vmcnt(0)\n{stopper}\nv_mov_b32 v3, v4\n"
    body += "v_add_u32 v3, v3, v1\n" + STORE.format("v3")

    assert not propose(SunkWait(), body)


def test_wait_does_not_sink_past_its_use() -> None:
    body = LOAD.format("v1") + "s_waitcnt vmcnt(0)\nv_mov_b32 v3, v1\n" + STORE.format("v3")

    assert not propose(SunkWait(), body)


def test_nop_shrinks_to_the_hazard_distance() -> None:
    body = "v_mov_b32 v1, v2\ns_nop 4\nv_mov_b32_dpp v3, v1 row_shr:8 row_mask:0xf bank_mask:0xf\n"
    body += STORE.format("v3")

    proposal = only_proposal(ShrunkNop(), body)

    assert texts_of(apply_and_rebuild(body, [proposal]))[1] == "s_nop 1"


def test_nop_without_a_hazard_is_deleted() -> None:
    body = "v_mov_b32 v1, v2\ns_nop 0\nv_mov_b32 v3, v1\n" + STORE.format("v3")

    proposal = only_proposal(ShrunkNop(), body)

    assert "s_nop 0" not in texts_of(apply_and_rebuild(body, [proposal]))


def test_two_nops_that_share_a_hazard_do_not_both_go() -> None:
    body = "v_mov_b32 v1, v2\ns_nop 1\ns_nop 1\n"
    body += "v_mov_b32_dpp v3, v1 row_shr:8 row_mask:0xf bank_mask:0xf\n" + STORE.format("v3")

    proposals = propose(ShrunkNop(), body)

    after = apply_and_rebuild(body, proposals)
    assert not after.hazards
    assert sum("s_nop" in text for text in texts_of(after)) == 1


def test_nop_that_the_back_edge_needs_stays() -> None:
    body = ".Lhead:\nv_mov_b32_dpp v3, v1 row_shr:8 row_mask:0xf bank_mask:0xf\n"
    body += "v_mov_b32 v1, v2\ns_nop 0\ns_cbranch_scc1 .Lhead\n" + STORE.format("v3")

    assert not propose(ShrunkNop(), body)


def test_unread_result_is_deleted() -> None:
    body = "v_mov_b32 v1, v2\nv_mov_b32 v5, v2\n" + STORE.format("v1")

    proposal = only_proposal(DeadCode(), body)

    assert texts_of(apply_and_rebuild(body, [proposal]))[0] == "v_mov_b32_e32 v1, v2"
    assert len(texts_of(apply_and_rebuild(body, [proposal]))) == 2


def test_result_read_on_another_path_stays() -> None:
    body = "v_mov_b32 v1, 0\nv_mov_b32 v5, v2\ns_cbranch_scc0 .Lend2\nv_mov_b32 v1, v5\n.Lend2:\n"

    assert not propose(DeadCode(), body + STORE.format("v1"))


def test_value_under_a_masked_overwrite_stays() -> None:
    body = "v_mov_b32 v1, 0\ns_and_saveexec_b64 s[2:3], vcc\nv_mov_b32 v1, 1\n"
    body += "s_or_b64 exec, exec, s[2:3]\n"

    assert not propose(DeadCode(), body + STORE.format("v1"))


def test_scc_result_that_a_branch_reads_stays() -> None:
    body = "s_add_u32 s4, s5, s6\ns_cbranch_scc0 .Lend2\n" + STORE.format("v1") + ".Lend2:\n"

    assert not propose(DeadCode(), body)


def test_canonicalising_twice_is_deleted() -> None:
    body = "v_add_f32 v1, v2, v3\nv_max_f32 v1, v1, v1\n" + STORE.format("v1")

    proposal = only_proposal(DeadCode(), body)

    assert len(texts_of(apply_and_rebuild(body, [proposal]))) == 2


def test_useless_instruction_that_keeps_a_hazard_away_stays() -> None:
    body = "v_readfirstlane_b32 s0, v4\nv_mov_b32 v1, v2\nv_mov_b32 v5, v6\nv_mov_b32 v5, v7\n"
    body += "v_mov_b32_dpp v3, v1 row_shr:8 row_mask:0xf bank_mask:0xf\n" + STORE.format("v3")

    proposals = propose(DeadCode(), body)

    assert not apply_and_rebuild(body, proposals).hazards


def test_load_is_hoisted_with_its_address() -> None:
    body = "v_mov_b32 v3, v4\nv_mov_b32 v5, v4\nv_lshlrev_b32 v8, 2, v0\nv_mov_b32 v9, 0\n"
    body += LOAD.format("v1") + "s_waitcnt vmcnt(0)\nv_add_u32 v3, v3, v1\nv_add_u32 v3, v3, v5\n"
    body += STORE.format("v3")

    after = apply_and_rebuild(body, [only_proposal(HoistedLoad(), body)])

    texts = texts_of(after)
    assert [text.split()[0] for text in texts[:3]] == [
        "v_lshlrev_b32_e32",
        "v_mov_b32_e32",
        "global_load_dword",
    ]
    assert texts.index("s_waitcnt vmcnt(0)") == 5
    assert not after.wait_violations


@pytest.mark.parametrize(
    "obstacle",
    [
        "s_barrier",
        "global_store_dword v[10:11], v6, off",
        "s_mov_b64 exec, s[2:3]",
        "v_mov_b32 v1, v8",
        "v_mov_b32 v9, 0",
    ],
)
def test_load_is_not_hoisted_above_what_orders_it(obstacle: str) -> None:
    body = f"{obstacle}\n" + LOAD.format("v1") + "s_waitcnt vmcnt(0)\n" + STORE.format("v1")
    body = body.replace("v_mov_b32 v1, v8", "v_add_u32 v5, v1, v1\n" + STORE.format("v5"))

    assert not propose(HoistedLoad(), body)


def test_schedule_issues_the_load_before_independent_work() -> None:
    body = "".join(f"v_mov_b32 v{number}, v2\n" for number in range(20, 30))
    body += LOAD.format("v1") + "s_waitcnt vmcnt(0)\nv_add_u32 v3, v1, v20\n"
    body += "".join(f"v_add_u32 v3, v3, v{number}\n" for number in range(21, 30))
    body += STORE.format("v3")

    after = apply_and_rebuild(body, [only_proposal(BlockSchedule(), body)])

    texts = texts_of(after)
    assert texts[0] == "global_load_dword v1, v[8:9], off"
    assert texts.index("s_waitcnt vmcnt(0)") == 11
    assert not after.wait_violations


def test_schedule_fills_a_hazard_with_work_instead_of_a_nop() -> None:
    body = "v_mov_b32 v1, v2\ns_nop 1\nv_mov_b32_dpp v3, v1 row_shr:8 row_mask:0xf bank_mask:0xf\n"
    body += "v_mov_b32 v5, v2\nv_mov_b32 v6, v2\n"
    body += STORE.format("v3") + STORE.format("v5") + STORE.format("v6")

    after = apply_and_rebuild(body, [only_proposal(BlockSchedule(), body)])

    assert not any("s_nop" in text for text in texts_of(after))
    assert not after.hazards


LOOP = (
    "v_mov_b32 v3, 0\ns_mov_b32 s4, 0\n.Lhead:\ns_nop 0\nv_mov_b32 v6, v6\n"
    + LOAD.format("v1")
    + LOAD.format("v2")
    + "v_add_co_u32 v8, vcc, 4, v8\nv_addc_co_u32 v9, vcc, 0, v9, vcc\n"
    "s_waitcnt vmcnt(0)\nv_mov_b32 v7, v4\nv_add_u32 v3, v3, v1\nv_mul_lo_u32 v5, v7, v7\n"
    "s_waitcnt vmcnt(0)\nv_add_u32 v3, v3, v2\nv_add_u32 v3, v3, v5\n"
    "s_add_u32 s4, s4, 1\ns_cmp_lt_u32 s4, 8\ns_cbranch_scc1 .Lhead\n" + STORE.format("v3")
)


@pytest.mark.parametrize("mutator", MUTATORS, ids=lambda mutator: mutator.id)
def test_every_proposal_passes_the_static_gate(mutator: object) -> None:
    view = view_of(LOOP)

    for proposal in mutator.propose(view):  # type: ignore[attr-defined]
        listing = apply_edits(view.listing, proposal.edits)
        assert not list(find_static_faults(view, view_kernel(listing, "work")))


def test_later_wait_is_merged_into_the_earlier_one() -> None:
    body = LOAD.format("v1") + LOAD.format("v2") + "s_waitcnt vmcnt(1)\nv_mov_b32 v3, v1\n"
    body += "s_waitcnt vmcnt(0)\nv_add_u32 v3, v3, v2\n" + STORE.format("v3")

    after = apply_and_rebuild(body, [only_proposal(MergedWait(), body)])

    waits = [text for text in texts_of(after) if "waitcnt" in text]
    assert waits == ["s_waitcnt vmcnt(0)"]
    assert not after.wait_violations


def test_wait_for_a_load_issued_in_between_is_not_merged() -> None:
    body = LOAD.format("v1") + "s_waitcnt vmcnt(0)\nv_mov_b32 v3, v1\n" + LOAD.format("v2")
    body += "s_waitcnt vmcnt(0)\nv_add_u32 v3, v3, v2\n" + STORE.format("v3")

    assert not propose(MergedWait(), body)


def test_wait_past_a_younger_load_is_merged_with_a_smaller_count() -> None:
    body = LOAD.format("v1") + LOAD.format("v2") + "s_waitcnt vmcnt(1)\nv_mov_b32 v3, v1\n"
    body += LOAD.format("v4") + "s_waitcnt vmcnt(1)\nv_add_u32 v3, v3, v2\n" + STORE.format("v3")

    after = apply_and_rebuild(body, [only_proposal(MergedWait(), body)])

    assert [text for text in texts_of(after) if "waitcnt" in text] == ["s_waitcnt vmcnt(0)"]
    assert not after.wait_violations


def test_wait_that_keeps_a_hazard_at_a_distance_stays() -> None:
    body = "v_mov_b32 v1, v2\nv_nop\ns_waitcnt lgkmcnt(0)\n"
    body += "v_mov_b32_dpp v3, v1 row_shr:8 row_mask:0xf bank_mask:0xf\n" + STORE.format("v3")

    assert not propose(ImpliedWait(), body)


def test_hoisted_load_is_kept_out_of_a_run_that_it_must_not_join() -> None:
    body = "global_load_dword v1, v[8:9], off\nv_mov_b32 v3, v4\nv_mov_b32 v5, v4\n"
    body += "global_load_dword v10, v[10:11], off\ns_waitcnt vmcnt(0)\n"
    body += "v_add_u32 v1, v1, v3\nv_add_u32 v1, v1, v5\nv_add_u32 v1, v1, v10\n"
    body += "global_store_dword v[12:13], v1, off\n"

    after = apply_and_rebuild(body, [only_proposal(HoistedLoad(), body)])

    texts = texts_of(after)
    assert [text.split(",")[0] for text in texts[:3]] == [
        "global_load_dword v10",
        "s_nop 0",
        "global_load_dword v1",
    ]
    assert not after.hazards


def test_schedule_of_a_block_with_loads_in_flight_at_its_end_keeps_their_queue() -> None:
    body = "v_mov_b32 v20, v4\nv_lshlrev_b32 v8, 2, v0\nv_mul_lo_u32 v8, v8, v8\nv_mov_b32 v9, 0\n"
    body += LOAD.format("v1") + "global_load_dword v2, v[14:15], off\n"
    body += "s_cbranch_scc0 .Ljoin\ns_nop 0\n.Ljoin:\ns_waitcnt vmcnt(1)\n"
    body += "v_add_u32 v3, v20, v1\n" + STORE.format("v3")
    view = view_of(body)

    for policy in Policy:
        for proposal in BlockSchedule(policy).propose(view):
            listing = apply_edits(view.listing, proposal.edits)
            assert not list(find_static_faults(view, view_kernel(listing, "work")))


def test_dead_code_leaves_no_block_empty() -> None:
    body = """
    v_mov_b32 v1, 0
    s_cbranch_scc0 .Lnext
    v_mov_b32 v2, 1
    .Lnext:
    v_mov_b32 v3, 0
    """

    proposals = propose(DeadCode(), body)

    assert [proposal.sites for proposal in proposals] == [(0,), (3,)]
    assert texts_of(apply_and_rebuild(body, proposals)) == [
        "s_cbranch_scc0 .L2",
        "v_mov_b32_e32 v2, 1",
    ]
