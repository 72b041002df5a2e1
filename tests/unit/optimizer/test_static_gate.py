from __future__ import annotations

import dataclasses

import pytest
from small_kernels import build_kernel, view_of

from asmevo.codeobject.code_object import CodeObject
from asmevo.optimizer.gate.static import find_interface_changes, find_static_faults
from asmevo.optimizer.kernel_view import KernelView, view_kernel
from asmevo.optimizer.proposal import Delete, Edit, InsertAfter, Move, Replace, apply_edits

BODY = """
global_load_dword v1, v[8:9], off
v_mov_b32 v2, v4
v_mov_b32 v3, v4
s_waitcnt vmcnt(0)
v_add_u32 v5, v1, v2
v_mov_b32 v6, v5
s_nop 0
v_mov_b32_dpp v7, v6 row_shr:8 row_mask:0xf bank_mask:0xf bound_ctrl:1
ds_write_b32 v10, v7
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v11, v10
s_waitcnt lgkmcnt(0)
global_store_dword v[12:13], v11, off
global_store_dword v[12:13], v3, off
"""
LOAD, FIRST_MOVE, SECOND_MOVE, WAIT, ADD, COPY, NOP, DPP, WRITE = range(9)
LDS_WAIT, BARRIER, READ, LAST_WAIT, FIRST_STORE, SECOND_STORE = range(9, 15)


def faults_of(*edits: Edit) -> list[str]:
    view = view_of(BODY)
    candidate = view_kernel(apply_edits(view.listing, edits), "work")
    return list(find_static_faults(view, candidate))


def test_unchanged_kernel_has_no_faults() -> None:
    assert not faults_of()


def test_independent_instructions_may_change_places() -> None:
    assert not faults_of(Move(id=FIRST_MOVE, after_id=SECOND_MOVE))


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ((Delete(ids=(WAIT,)),), "may still be loading"),
        ((Replace(id=WAIT, texts=("s_waitcnt vmcnt(1)",)),), "may still be loading"),
        ((Delete(ids=(LDS_WAIT,)),), "synchronises while"),
        ((Move(id=LDS_WAIT, after_id=BARRIER),), "synchronises while"),
        ((Delete(ids=(NOP,)),), "valu-dpp"),
        ((Move(id=ADD, after_id=COPY),), "another value of v5"),
        ((Move(id=COPY, after_id=DPP),), "another value of v6"),
        ((Delete(ids=(FIRST_MOVE,)),), "was removed though its result may be read"),
        ((Delete(ids=(WRITE,)),), "was removed though its result may be read"),
        ((Delete(ids=(BARRIER,)),), "was removed though its result may be read"),
        ((Move(id=READ, after_id=WRITE),), "change places"),
        ((Move(id=FIRST_STORE, after_id=SECOND_STORE),), "change places"),
        ((Replace(id=SECOND_MOVE, texts=("v_mov_b32_e32 v3, v5",)),), "is new and not a wait"),
        ((InsertAfter(id=SECOND_MOVE, texts=("v_mov_b32_e32 v4, 0",)),), "is new and not a wait"),
    ],
)
def test_edit_that_changes_what_is_computed_is_rejected(
    edits: tuple[Edit, ...], reason: str
) -> None:
    faults = faults_of(*edits)

    assert any(reason in fault for fault in faults), faults


def views_of(body: str, *edits: Edit) -> tuple[KernelView, KernelView]:
    view = view_of(body)
    return view, view_kernel(apply_edits(view.listing, edits), "work")


def test_move_into_another_block_is_rejected() -> None:
    body = "v_mov_b32 v1, v2\ns_cbranch_scc0 .Lend2\nv_mov_b32 v3, v4\n.Lend2:\n"
    body += "global_store_dword v[12:13], v1, off\n"

    faults = list(find_static_faults(*views_of(body, Move(id=0, after_id=2))))

    assert any("came from another block" in fault for fault in faults)


def test_move_behind_the_branch_of_a_block_is_rejected() -> None:
    body = "s_cmp_eq_u32 s4, 0\nv_mov_b32 v1, v2\ns_cbranch_scc0 .Lend2\ns_nop 0\n.Lend2:\n"
    body += "global_store_dword v[12:13], v1, off\n"

    assert list(find_static_faults(*views_of(body, Move(id=0, after_id=2))))


DMA = "global_load_lds_dword v[2:3], off\n"


@pytest.mark.parametrize(
    ("body", "wait", "relaxed"),
    [
        # A pipeline of two iterations must not become one of three: same instruction, older one.
        (".Lhead2:\n" + DMA + "s_waitcnt vmcnt(1)\ns_barrier\nds_read_b32 v1, v5\n"
         "s_waitcnt lgkmcnt(0)\ns_barrier\ns_cbranch_scc1 .Lhead2\n", 1, "s_waitcnt vmcnt(2)"),
        # The wave reads what it brought into LDS itself: no barrier, no common register.
        (DMA + "s_waitcnt vmcnt(0)\nds_read_b32 v1, v5\n", 1, "s_nop 0"),
        (DMA + "s_waitcnt vmcnt(0)\n", 1, "s_nop 0"),
    ],
)  # fmt: skip
def test_wait_that_no_register_shows_is_kept(body: str, wait: int, relaxed: str) -> None:
    faults = list(find_static_faults(*views_of(body, Replace(id=wait, texts=(relaxed,)))))

    assert any("still outstanding" in fault for fault in faults), faults


def test_loads_that_a_replay_would_break_may_not_become_neighbours() -> None:
    body = "global_load_dword v1, v[2:3], off\ns_nop 0\nglobal_load_dword v2, v[4:5], off\n"

    faults = list(find_static_faults(*views_of(body, Delete(ids=(1,)))))

    assert any("xnack-clause" in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("producer", "filler", "consumer", "shorter"),
    [
        ("global_load_dword v1, v[2:3], off", "s_waitcnt vmcnt(0)", "v_mov_b32 v4, v1", "s_nop 0"),
        ("v_mov_b32 v1, v2", "s_nop 3", "v_mov_b32_dpp v4, v1 row_shr:8", "s_nop 0"),
    ],
)
def test_fault_of_the_parent_on_one_path_excuses_no_other_path(
    producer: str, filler: str, consumer: str, shorter: str
) -> None:
    body = f"{producer}\ns_cbranch_scc1 .Ljoin2\n{filler}\n.Ljoin2:\n{consumer}\n"
    body += "global_store_dword v[12:13], v4, off\n"

    assert list(find_static_faults(*views_of(body, Replace(id=2, texts=(shorter,)))))
    assert not list(find_static_faults(*views_of(body, InsertAfter(id=3, texts=("s_nop 0",)))))


def test_edit_outside_the_kernel_is_rejected() -> None:
    view = view_of("v_mov_b32 v1, v2\n")
    behind = dataclasses.replace(view.listing.instructions[-1], id=2)
    other = dataclasses.replace(
        view.listing, instructions=(*view.listing.instructions, behind), next_id=3
    )

    faults = list(find_static_faults(view, view_kernel(other, "work")))

    assert faults == ["code outside the kernel changed"]


def test_interface_of_the_same_object_is_unchanged() -> None:
    code_object = CodeObject.read(build_kernel(BODY))

    assert not list(find_interface_changes(code_object, code_object))


def test_interface_with_another_descriptor_or_metadata_is_reported() -> None:
    code_object = CodeObject.read(build_kernel(BODY))
    (kernel,) = code_object.kernels
    other = dataclasses.replace(
        kernel, descriptor=kernel.descriptor[:8] + b"\x01" + kernel.descriptor[9:]
    )

    changed = dataclasses.replace(code_object, kernels=(other,), metadata={}, metadata_note=b"")

    found = list(find_interface_changes(code_object, changed))
    assert found[0] == "a launch would differ: descriptor work: byte 8: 10000000 and 01000000"
    assert any("metadata /amdhsa.kernels" in one for one in found)
