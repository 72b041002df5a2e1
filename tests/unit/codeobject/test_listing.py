"""Edits of a listing and the proof that the rebuilt object is what was meant."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Any

import pytest
from edited_object import build_kernel

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.edit_check import check_edit
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.codeobject.toolchain import disassemble
from asmevo.errors import AssemblerError, UsageError


def texts(listing: Listing) -> list[str]:
    return [one.text for one in listing.instructions]


def find(listing: Listing, text: str) -> int:
    return next(one.id for one in listing.instructions if one.text.startswith(text))


def find_data(listing: Listing, text: str) -> bytes:
    return listing.instruction(find(listing, text)).data


def rebuilt(listing: Listing) -> Listing:
    """The listing of the rebuilt object."""
    return recover(rebuild_listing(listing))


@pytest.fixture(scope="module")
def two(build_object: Any) -> Listing:
    return recover(build_object("two_kernels"))


@pytest.fixture(scope="module")
def preload(build_object: Any) -> Listing:
    return recover(build_object("preload"))


def test_insert_into_a_loop_keeps_the_branch_on_its_target(two: Listing) -> None:
    head = find(two, "v_add_u32_e32 v1")

    result = rebuilt(two.insert_after(head, ["s_nop 3", "v_mov_b32_e32 v5, v6"]))

    branch = result.instruction(find(result, "s_cbranch_scc1"))
    assert branch.target is not None
    place = result.index(branch.target)
    assert texts(result)[place : place + 3] == [
        "v_add_u32_e32 v1, 1, v1",
        "s_nop 3",
        "v_mov_b32_e32 v5, v6",
    ]


def test_insert_moves_later_functions_and_what_points_at_them(two: Listing) -> None:
    head = find(two, "s_mov_b32 s7")
    edited = two.insert_after(head, ["s_nop 0"] * 80)

    code_object = CodeObject.read(rebuild_listing(edited))
    result = recover(code_object.data)

    assert code_object.kernel("second").entry_offset > 256 + 64
    assert code_object.kernel("second").entry_offset % 256 == 0
    call = find(result, "s_add_u32 s8")
    helper = int(result.instruction(call).operands.split(".Lt")[1].split("@")[0], 16)
    assert next(one for one in result.instructions if one.offset == helper).text == (
        "v_add_u32_e32 v2, 2, v2"
    )


def test_insert_moves_pointers_into_code_along(two: Listing) -> None:
    code_object = CodeObject.read(
        rebuild_listing(two.insert_after(find(two, "s_mov_b32 s7"), ["s_nop 0"] * 80))
    )

    (pointer,) = code_object.relocations
    start = pointer.addend - code_object.text.address
    assert code_object.text.data[start : start + 4] == find_data(two, "v_add_u32_e32 v2")


def test_rebuilt_object_with_a_wrong_pointer_is_refused(two: Listing) -> None:
    edited = two.insert_after(find(two, "s_mov_b32 s7"), ["s_nop 0"])
    data = rebuild_listing(edited)
    (pointer,) = CodeObject.read(data).relocations
    entry = struct.pack("<QQq", pointer.address, pointer.type, pointer.addend)
    wrong = struct.pack("<QQq", pointer.address, pointer.type, pointer.addend + 4)
    assert data.count(entry) == 1

    with pytest.raises(AssemblerError, match=r"pointer at \.data"):
        check_edit(edited, CodeObject.read(data.replace(entry, wrong)))


def test_insert_before_a_branch_target_is_skipped_by_the_branch(two: Listing) -> None:
    before = find(two, "v_mfma")

    result = rebuilt(two.insert_after(before, ["s_nop 7"]))

    branch = result.instruction(find(result, "s_cbranch_execz"))
    assert branch.target is not None
    assert result.instruction(branch.target).text == "s_endpgm"


def test_replace_of_a_branch_target_takes_the_branch_along(two: Listing) -> None:
    head = find(two, "v_add_u32_e32 v1")

    edited = two.replace(head, ["s_nop 1", "v_add_u32_e32 v1, 2, v1"])
    result = rebuilt(edited)

    branch = result.instruction(find(result, "s_cbranch_scc1"))
    assert branch.target is not None
    assert result.instruction(branch.target).text == "s_nop 1"


def test_delete_of_a_branch_target_moves_the_branch_to_the_next(two: Listing) -> None:
    head = find(two, "v_add_u32_e32 v1")

    result = rebuilt(two.delete([head]))

    branch = result.instruction(find(result, "s_cbranch_scc1"))
    assert branch.target is not None
    assert result.instruction(branch.target).text == "s_sub_u32 s7, s7, 1"


def test_move_leaves_labels_in_their_place(two: Listing) -> None:
    head, compare = find(two, "v_add_u32_e32 v1"), find(two, "s_cmp_lg_u32")

    result = rebuilt(two.move(head, compare))

    branch = result.instruction(find(result, "s_cbranch_scc1"))
    assert branch.target is not None
    assert result.instruction(branch.target).text == "s_sub_u32 s7, s7, 1"
    place = result.index(find(result, "s_cmp_lg_u32"))
    assert texts(result)[place + 1] == "v_add_u32_e32 v1, 1, v1"


def test_move_behind_the_one_before_changes_nothing(two: Listing) -> None:
    head = find(two, "v_add_u32_e32 v1")
    before = two.instructions[two.index(head) - 1].id

    assert two.move(head, before) is two


def test_move_of_the_last_instruction_keeps_the_function_whole(two: Listing) -> None:
    product, matrix = find(two, "v_mul_f32"), find(two, "v_mfma")

    edited = two.move(product, matrix)

    assert [one.mnemonic for one in edited.kernel_instructions("second")] == [
        "s_cbranch_execz",
        "v_mfma_f32_16x16x16_bf16",
        "v_mul_f32_e32",
        "s_endpgm",
    ]
    rebuild_listing(edited)


def test_insert_behind_the_last_instruction_belongs_to_the_kernel(two: Listing) -> None:
    edited = two.insert_after(two.kernels[1].last_id, ["s_nop 0"])

    assert edited.kernel_instructions("second")[-1].text == "s_nop 0"
    code_object = CodeObject.read(rebuild_listing(edited))
    assert code_object.kernel("second").code_size == two.source.kernel("second").code_size + 4


def test_edits_never_reuse_ids(two: Listing) -> None:
    last = two.instructions[-1].id
    head = find(two, "v_add_u32_e32 v1")

    once = two.insert_after(head, ["s_nop 0"])
    added = once.next_id - 1
    again = once.delete([added]).insert_after(head, ["s_nop 1"])

    assert added == last + 1
    assert again.next_id - 1 == added + 1
    assert len(texts(again)) == len(texts(two)) + 1


def test_edits_leave_the_original_listing_alone(two: Listing) -> None:
    before = two.instructions

    two.delete([find(two, "v_mul_f32")])

    assert two.instructions is before


@pytest.mark.parametrize("place", [0, 1, 2, 10])
def test_preload_prologue_is_pinned(preload: Listing, place: int) -> None:
    pinned = preload.instructions[place].id
    free = preload.kernels[0].body_id

    edits: list[Callable[[], Listing]] = [
        lambda: preload.replace(pinned, ["s_nop 0"]),
        lambda: preload.delete([pinned]),
        lambda: preload.insert_after(pinned, ["s_nop 0"]),
        lambda: preload.move(pinned, free),
        lambda: preload.move(free, pinned),
    ]
    for edit in edits:
        with pytest.raises(UsageError, match="pinned"):
            edit()


def test_preload_body_edit_keeps_both_entries(preload: Listing) -> None:
    body = preload.kernels[0].body_id

    result = rebuilt(preload.replace(body, ["s_nop 0", preload.instruction(body).text]))

    kernel = result.kernels[0]
    assert result.instruction(kernel.body_id).offset == 256
    assert result.instruction(kernel.body_id).text == "s_nop 0"
    assert result.instruction(find(result, "s_branch")).target == kernel.body_id


def test_pc_relative_sequences_are_pinned(two: Listing) -> None:
    getpc = find(two, "s_getpc_b64 s[4:5]")

    with pytest.raises(UsageError, match="pinned"):
        two.insert_after(getpc, ["s_nop 0"])
    with pytest.raises(UsageError, match="pinned"):
        two.delete([getpc + 1])
    rebuild_listing(two.insert_after(getpc + 2, ["s_nop 0"]))


def test_listing_with_blockers_refuses_edits(two: Listing) -> None:
    blocked = dataclasses.replace(two, edit_blockers=("for a reason",))

    with pytest.raises(UsageError, match="cannot be edited: for a reason"):
        blocked.insert_after(0, ["s_nop 0"])


def test_delete_of_a_whole_kernel_is_refused(two: Listing) -> None:
    with pytest.raises(UsageError, match="second would have no instructions left"):
        two.delete(one.id for one in two.kernel_instructions("second"))


def test_move_into_another_function_is_refused(two: Listing) -> None:
    with pytest.raises(UsageError, match="different functions"):
        two.move(find(two, "v_mul_f32"), find(two, "s_mov_b32 s7"))


def test_edit_of_an_unknown_id_is_refused(two: Listing) -> None:
    with pytest.raises(UsageError, match="no instruction with id 99999"):
        two.delete([99999])


def test_rebuild_of_text_that_llvm_refuses_names_the_instruction(two: Listing) -> None:
    with pytest.raises(AssemblerError, match="invalid instruction: `v_nonsense v1`"):
        rebuild_listing(two.insert_after(find(two, "s_mov_b32 s7"), ["v_nonsense v1"]))


def test_rebuild_of_text_that_llvm_reads_otherwise_is_refused(two: Listing) -> None:
    head = find(two, "s_mov_b32 s7")

    with pytest.raises(AssemblerError, match=r"`v_mov_b32 v1, 0x3f800000` was assembled as"):
        rebuild_listing(two.insert_after(head, ["v_mov_b32 v1, 0x3f800000"]))


def test_rebuild_of_an_offset_that_llvm_masks_is_refused(two: Listing) -> None:
    head = find(two, "s_mov_b32 s7")
    edited = two.insert_after(head, ["buffer_load_dword v1, off, s[4:7], 0 offset:8"])
    masked = tuple(
        dataclasses.replace(one, operands=one.operands.replace("offset:8", "offset:4104"))
        for one in edited.instructions
    )

    with pytest.raises(AssemblerError, match=r"offset:4104` was assembled as .*offset:8`"):
        rebuild_listing(dataclasses.replace(edited, instructions=masked))


def test_rebuild_of_a_tampered_kept_instruction_is_refused(two: Listing) -> None:
    edited = two.insert_after(find(two, "s_mov_b32 s7"), ["s_nop 0"])
    place = edited.index(find(edited, "v_mul_f32"))
    wrong = dataclasses.replace(edited.instructions[place], operands="v0, 0x40490fdc, v0")
    instructions = (*edited.instructions[:place], wrong, *edited.instructions[place + 1 :])

    with pytest.raises(AssemblerError, match="has the bytes of"):
        rebuild_listing(dataclasses.replace(edited, instructions=instructions))


@pytest.mark.parametrize(("between", "fits"), [(32767, True), (32768, False)])
def test_branch_forward_reaches_so_many_words_and_no_more(between: int, fits: bool) -> None:
    code = ["s_cbranch_scc1 .Lend_of_code", "s_nop 0", ".Lend_of_code:", "s_endpgm"]
    listing = recover(build_kernel(code))
    edited = listing.insert_after(1, ["s_nop 1"] * (between - 1))

    if fits:
        code_object = CodeObject.read(rebuild_listing(edited))
        assert code_object.text.data[:2] == (32767).to_bytes(2, "little")
    else:
        with pytest.raises(
            AssemblerError, match=r"s_cbranch_scc1 \.L2` would have to go 32768 words"
        ):
            rebuild_listing(edited)


def test_branch_out_of_reach_can_be_led_over_another_one() -> None:
    code = ["s_cbranch_scc1 .Lfar", "s_nop 0", "s_nop 1", ".Lfar:", "s_endpgm"]
    listing = recover(build_kernel(code))
    branch, first, second, end = (one.id for one in listing.instructions)
    # The hop stands between the two halves, which jump over it.
    hop = listing.next_id + 1
    edited = listing.insert_after(first, [f"s_branch .L{second}", f"s_branch .L{end}"])
    edited = edited.replace(branch, [f"s_cbranch_scc1 .L{hop}"])
    edited = edited.insert_after(first, ["s_nop 2"] * 20000)
    edited = edited.insert_after(second, ["s_nop 3"] * 20000)

    found = disassemble(CodeObject.read(rebuild_listing(edited)).text.data, "gfx942")

    target = next(one for one in found if one.id == found[0].target)
    assert target.text == f"s_branch .L{found[-1].id}"


def test_branch_backward_out_of_reach_is_refused() -> None:
    listing = recover(build_kernel([".Lhead:", "s_nop 0", "s_cbranch_scc1 .Lhead", "s_endpgm"]))

    with pytest.raises(AssemblerError, match="would have to go -32769 words"):
        rebuild_listing(listing.insert_after(0, ["s_nop 1"] * 32767))


def test_label_symbols_follow_their_instruction() -> None:
    code = ["s_cbranch_scc1 label_0002", "s_nop 0", "label_0002:", "s_mov_b32 s1, 1", "s_endpgm"]
    listing = recover(build_kernel(code))

    code_object = CodeObject.read(rebuild_listing(listing.insert_after(1, ["s_nop 1"] * 3)))

    label = next(one for one in code_object.symbols if one.name == "label_0002")
    at = label.value - code_object.text.address
    assert at == 20
    assert code_object.text.data[at : at + 4] == find_data(listing, "s_mov_b32 s1")
