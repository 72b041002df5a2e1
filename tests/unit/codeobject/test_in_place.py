"""Edits patched into objects that cannot be rebuilt."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from edited_object import build_kernel, find

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.compare import compare
from asmevo.codeobject.instruction_assembly import find_unfaithful
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.open_listing import open_listing, take_in_place
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.codeobject.resources import ResourceRefusal
from asmevo.codeobject.toolchain import disassemble
from asmevo.errors import AssemblerError, CodeObjectError, UsageError

LOOP = [
    "s_mov_b32 s7, 8",
    ".Lloop:",
    "v_add_u32_e32 v1, 1, v1",
    "v_add_f32_e64 v2, v2, v3",
    "v_add_u32_e32 v3, 2, v3",
    "s_sub_u32 s7, s7, 1",
    "s_cmp_lg_u32 s7, 0",
    "s_cbranch_scc1 .Lloop",
    "s_endpgm",
]


def texts(data: bytes) -> list[str]:
    code_object = CodeObject.read(data)
    return [one.text for one in disassemble(code_object.text.data, code_object.target)]


@pytest.fixture
def unwritable(build_object: Any) -> bytes:
    """An object with a symbol that no assembly text can hold."""
    data: bytes = build_object("two_kernels")
    return data.replace(b"\0variable\0", b"\0var\n.b 1\0")


@pytest.fixture(scope="module")
def loop() -> Listing:
    return take_in_place(build_kernel(LOOP))


def test_object_that_cannot_be_rebuilt_is_patched(unwritable: bytes) -> None:
    with pytest.raises(CodeObjectError):
        recover(unwritable)
    listing = open_listing(unwritable)
    assert listing.is_in_place

    product = find(listing, "v_mul_f32")
    data = rebuild_listing(listing.replace(product, ["v_mul_f32_e32 v0, 2.0, v0"]))

    assert len(data) == len(unwritable)
    expected = texts(unwritable)
    expected[product : product + 1] = ["v_mul_f32_e32 v0, 2.0, v0", "s_nop 0"]
    assert [one.partition(" .L")[0] for one in texts(data)] == [
        one.partition(" .L")[0] for one in expected
    ]
    parts = {one.part for one in compare(CodeObject.read(unwritable), CodeObject.read(data))}
    assert parts == {".text"}


def test_object_that_can_be_rebuilt_is_not_patched(build_object: Any) -> None:
    assert not open_listing(build_object("two_kernels")).is_in_place


def test_unedited_listing_gives_the_bytes_back(unwritable: bytes) -> None:
    assert rebuild_listing(open_listing(unwritable)) == unwritable


def test_deleted_instruction_becomes_nops(loop: Listing) -> None:
    data = rebuild_listing(loop.delete([find(loop, "v_add_f32")]))

    assert texts(data)[2:4] == ["s_nop 0", "s_nop 0"]
    assert texts(data)[-2:] == ["s_cbranch_scc1 .L1", "s_endpgm"]


def test_moved_instruction_changes_places_with_others_of_another_size(loop: Listing) -> None:
    edited = loop.move(find(loop, "v_add_f32"), find(loop, "v_add_u32_e32 v3"))

    assert texts(rebuild_listing(edited))[1:4] == [
        "v_add_u32_e32 v1, 1, v1",
        "v_add_u32_e32 v3, 2, v3",
        "v_add_f32_e64 v2, v2, v3",
    ]


def test_branch_follows_what_moved(loop: Listing) -> None:
    edited = loop.delete([find(loop, "v_add_f32")]).insert_after(0, ["s_nop 3", "s_nop 4"])

    data = rebuild_listing(edited)

    assert texts(data) == [
        "s_mov_b32 s7, 8",
        "s_nop 3",
        "s_nop 4",
        "v_add_u32_e32 v1, 1, v1",
        "v_add_u32_e32 v3, 2, v3",
        "s_sub_u32 s7, s7, 1",
        "s_cmp_lg_u32 s7, 0",
        "s_cbranch_scc1 .L3",
        "s_endpgm",
    ]


def test_added_branch_goes_where_it_is_to(loop: Listing) -> None:
    end = find(loop, "s_endpgm")

    data = rebuild_listing(loop.replace(find(loop, "v_add_u32_e32 v1"), [f"s_branch .L{end}"]))

    assert texts(data)[1] == f"s_branch .L{end}"


@pytest.mark.parametrize(
    ("added", "error", "reason"),
    [
        (["s_nop 0"], UsageError, "does not fit"),
        (["v_mov_b32_e32 v90, 0"], UsageError, "more resources"),
        (["v_nonsense v1"], AssemblerError, "v_nonsense v1"),
        (["s_set_gpr_idx_on s0, gpr_idx(SRC0)"], ResourceRefusal, "cannot be recomputed"),
    ],
)
def test_edit_that_cannot_be_patched_is_refused(
    loop: Listing, added: list[str], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        rebuild_listing(loop.insert_after(0, added))


def test_edit_that_needs_less_keeps_what_there_is() -> None:
    data = build_kernel(["v_mov_b32_e32 v20, 0", *LOOP], total=24, accum=24)
    listing = take_in_place(data)

    patched = CodeObject.read(rebuild_listing(listing.delete([0])))

    assert patched.kernels[0].descriptor == listing.source.kernels[0].descriptor
    assert patched.metadata_note == listing.source.metadata_note


def test_text_that_llvm_reads_otherwise_is_refused(loop: Listing) -> None:
    edited = loop.replace(find(loop, "v_add_f32"), ["v_mov_b32 v1, 0x3f800000"])

    with pytest.raises(AssemblerError, match="was assembled as"):
        rebuild_listing(edited)


def test_functions_and_what_refers_to_them_stay(unwritable: bytes) -> None:
    listing = open_listing(unwritable)
    before = CodeObject.read(unwritable)

    data = rebuild_listing(
        listing.delete([find(listing, "s_mov_b32 s7"), find(listing, "v_mul_f32")])
    )
    with pytest.raises(UsageError, match="does not fit"):
        rebuild_listing(listing.insert_after(find(listing, "v_add_u32_e32 v2"), ["s_nop 0"] * 60))

    after = CodeObject.read(data)
    assert [one.entry_offset for one in after.kernels] == [
        one.entry_offset for one in before.kernels
    ]
    assert after.dynamic_symbols == before.dynamic_symbols


def unknown_getpc() -> bytes:
    return build_kernel(["s_getpc_b64 s[4:5]", "s_add_u32 s4, s4, s6", *LOOP])


def test_code_that_is_not_understood_may_be_edited_without_moving() -> None:
    data = unknown_getpc()
    assert recover(data).edit_blockers
    listing = open_listing(data)

    replaced = rebuild_listing(
        listing.replace(find(listing, "v_add_u32_e32 v1"), ["v_add_u32_e32 v1, 5, v1"])
    )

    assert len(replaced) == len(data)
    assert texts(replaced)[3] == "v_add_u32_e32 v1, 5, v1"
    with pytest.raises(UsageError, match=r"nothing can be moved.*s_getpc_b64 at \.text\+0x0"):
        rebuild_listing(listing.move(find(listing, "v_add_u32_e32 v1"), find(listing, "v_add_f32")))
    first, second = find(listing, "v_add_u32_e32 v1"), find(listing, "v_add_f32")
    with pytest.raises(UsageError, match="neighbours cannot be replaced"):
        rebuild_listing(listing.delete([second]).replace(first, ["s_nop 1", "s_nop 2"]))


def test_pinned_code_cannot_be_edited_in_place(unwritable: bytes) -> None:
    listing = open_listing(unwritable)

    with pytest.raises(UsageError, match="pinned"):
        listing.delete([find(listing, "s_getpc_b64")])


def test_instruction_that_does_not_assemble_to_its_bytes_is_kept_as_bytes() -> None:
    data = build_kernel(["v_add_u32_e64 v5, v4, v9", *LOOP], total=12, accum=12)
    text = CodeObject.read(data).text
    # An unused third source that is not zero, which the decoder drops.
    high = int.from_bytes(data[text.offset + 4 : text.offset + 8], "little") | 0x80 << 18
    damaged = data[: text.offset + 4] + high.to_bytes(4, "little") + data[text.offset + 8 :]
    listing = take_in_place(damaged)
    assert listing.instructions[0].needs_bytes

    patched = rebuild_listing(listing.delete([find(listing, "v_add_f32")]))

    assert CodeObject.read(patched).text.data[:8] == damaged[text.offset : text.offset + 8]


def test_unfaithful_are_those_that_llvm_refuses_or_encodes_otherwise(loop: Listing) -> None:
    first, second = loop.instructions[0], loop.instructions[1]
    refused = dataclasses.replace(first, mnemonic="s_nonsense")
    other = dataclasses.replace(second, operands="v1, 2, v1")

    assert find_unfaithful(loop.instructions, "gfx942") == frozenset()
    assert find_unfaithful((refused, other), "gfx942") == {first.id, second.id}


def test_text_of_an_in_place_listing_is_to_be_read_only(unwritable: bytes) -> None:
    text = open_listing(unwritable).to_assembly()

    assert text.startswith("; cannot be rebuilt from this text")
    assert "; .text+0x0\n\ts_getpc_b64 s[4:5]" in text
    assert not any(line.startswith(".b") for line in text.splitlines())
