"""The frozen interface: every bit that a launch sees is K0's."""

from __future__ import annotations

import dataclasses

import pytest
from edited_object import build_kernel

from asmevo.codeobject.abi import check_abi
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover

CODE = ["v_mov_b32_e32 v3, 0", "s_endpgm"]
# Group and private segment size, distance to the entry, accum_offset, granules of VGPRs and SGPRs,
# and the bit that has scratch set up.
FREE_BITS = {
    *range(64),
    *range(16 * 8, 24 * 8),
    *range(44 * 8, 44 * 8 + 6),
    *range(48 * 8, 48 * 8 + 10),
    52 * 8,
}


@pytest.fixture(scope="module")
def data() -> bytes:
    return build_kernel(CODE)


@pytest.fixture(scope="module")
def k0(data: bytes) -> CodeObject:
    return CodeObject.read(data)


def with_descriptor_bit(k0: CodeObject, bit: int) -> CodeObject:
    (kernel,) = k0.kernels
    descriptor = bytearray(kernel.descriptor)
    descriptor[bit // 8] ^= 1 << bit % 8
    changed = dataclasses.replace(kernel, descriptor=bytes(descriptor))
    return dataclasses.replace(k0, kernels=(changed,))


def with_metadata(k0: CodeObject, data: bytes, old: bytes, new: bytes) -> CodeObject:
    assert len(old) == len(new)
    assert data.count(old) == 1
    return CodeObject.read(data.replace(old, new))


def test_object_has_its_own_abi(k0: CodeObject) -> None:
    assert check_abi(k0, k0) == ()


def test_every_frozen_descriptor_bit_is_compared(k0: CodeObject) -> None:
    missed = {bit for bit in range(512) if not check_abi(k0, with_descriptor_bit(k0, bit))}

    assert missed == FREE_BITS


def test_enabled_scratch_may_not_be_switched_off() -> None:
    k0 = CodeObject.read(build_kernel(CODE, scratch=16))

    assert check_abi(k0, with_descriptor_bit(k0, 52 * 8))


def test_scratch_may_not_be_switched_on_where_code_sets_it_up() -> None:
    k0 = CodeObject.read(build_kernel(CODE, arch="gfx90a"))

    assert check_abi(k0, with_descriptor_bit(k0, 52 * 8))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b".kernarg_segment_align\x08", b".kernarg_segment_align\x04"),
        (b".max_flat_workgroup_size\x40", b".max_flat_workgroup_size\x20"),
        (b".wavefront_size\x40", b".wavefront_size\x20"),
        (b"\xadglobal_buffer", b"\xadglobal_buffes"),
        (b".vgpr_spill_count", b".vgpr_spill_counu"),
    ],
)
def test_metadata_of_the_launch_is_compared(
    k0: CodeObject, data: bytes, old: bytes, new: bytes
) -> None:
    assert check_abi(k0, with_metadata(k0, data, old, new))


def test_metadata_counts_are_free_but_not_sizes(k0: CodeObject, data: bytes) -> None:
    more = with_metadata(k0, data, b".vgpr_count\x08", b".vgpr_count\x09")
    bigger = with_metadata(
        k0, data, b".group_segment_fixed_size\x00", b".group_segment_fixed_size\x40"
    )

    assert check_abi(k0, more) == ()
    assert "where the descriptor has 0" in str(check_abi(k0, bigger)[0])


def test_symbol_names_are_compared(k0: CodeObject, build_object: object) -> None:
    two = CodeObject.read(build_object("two_kernels"))  # type: ignore[operator]
    renamed = CodeObject.read(two.data.replace(b"\0variable\0", b"\0variabel\0"))

    parts = {one.part for one in check_abi(two, renamed)}

    assert parts == {"symbol"}


def test_prologue_of_preload_is_compared(build_object: object) -> None:
    data = build_object("preload")  # type: ignore[operator]
    k0 = CodeObject.read(data)
    at = k0.text.offset + 12
    changed = CodeObject.read(data[:at] + b"\x01\x00\x80\xbf" + data[at + 4 :])

    (difference,) = check_abi(k0, changed)
    assert "before the entry for preloaded arguments" in difference.detail


def test_entry_must_stay_aligned(k0: CodeObject) -> None:
    (kernel,) = k0.kernels
    moved = dataclasses.replace(kernel, entry_offset=kernel.entry_offset + 4)

    (difference,) = check_abi(k0, dataclasses.replace(k0, kernels=(moved,)))
    assert "not at a multiple of 256" in difference.detail


def test_edit_that_grows_resources_keeps_the_abi(data: bytes) -> None:
    listing = recover(data)
    edited = listing.insert_after(0, ["v_mov_b32_e32 v90, 0", "s_mov_b32 s70, 0"])

    candidate = CodeObject.read(rebuild_listing(edited))

    assert candidate.kernels[0].fields.allocated_vgprs > 64
    assert check_abi(listing.source, candidate) == ()
