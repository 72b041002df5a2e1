"""Registers, LDS and scratch recomputed from edited code; descriptor and metadata agree."""

from __future__ import annotations

import pytest
from edited_object import build_kernel, find, rebuilt_kernel, write_kernel

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.codeobject.resource_records import declared_resources
from asmevo.codeobject.resources import ResourceRefusal, compute_resources, measure_need
from asmevo.codeobject.toolchain import assemble, link
from asmevo.errors import CodeObjectError

CODE = ["v_mov_b32_e32 v3, 0", "s_mov_b32 s7, 0", "s_endpgm"]


def recovered(code: list[str], **values: object) -> Listing:
    return recover(build_kernel(code, **values))


@pytest.fixture(scope="module")
def exact() -> Listing:
    """A kernel whose descriptor gives what its code uses: v0 to v3, s0 to s7."""
    return recovered(CODE)


def test_unedited_listing_has_what_k0_declares(exact: Listing) -> None:
    assert compute_resources(exact, "kernel") == declared_resources(exact.source.kernels[0])


def test_edit_without_new_registers_leaves_descriptor_and_metadata(exact: Listing) -> None:
    kernel = rebuilt_kernel(exact.insert_after(0, ["s_nop 0"]))

    original = exact.source.kernels[0]
    assert kernel.descriptor[:16] == original.descriptor[:16]
    assert kernel.descriptor[24:] == original.descriptor[24:]
    assert kernel.metadata == original.metadata


def test_new_vgpr_grows_allocation_accum_offset_and_metadata(exact: Listing) -> None:
    kernel = rebuilt_kernel(exact.insert_after(0, ["v_mov_b32_e32 v20, 0"]))

    assert kernel.fields.allocated_vgprs == 24
    assert kernel.fields.accum_offset == 24
    assert kernel.metadata.vgpr_count == 21
    assert kernel.metadata.agpr_count == 0


def test_new_agpr_starts_behind_the_vgprs(exact: Listing) -> None:
    kernel = rebuilt_kernel(exact.insert_after(0, ["v_accvgpr_write_b32 a9, v0"]))

    assert kernel.fields.accum_offset == 4
    assert kernel.fields.allocated_vgprs == 16
    assert kernel.metadata.vgpr_count == 14
    assert kernel.metadata.agpr_count == 10


def test_new_vgpr_of_a_kernel_with_agprs_moves_the_accum_offset() -> None:
    code = ["v_accvgpr_write_b32 a9, v0", *CODE]
    listing = recovered(code, total=14, accum=4, agprs=10)

    kernel = rebuilt_kernel(listing.insert_after(0, ["v_mov_b32_e32 v6, 0"]))

    assert kernel.fields.accum_offset == 8
    assert kernel.fields.allocated_vgprs == 24
    assert kernel.metadata.vgpr_count == 18


def test_new_sgpr_counts_the_special_ones_behind_it(exact: Listing) -> None:
    kernel = rebuilt_kernel(exact.insert_after(0, ["s_mov_b32 s25, 0"]))

    assert kernel.fields.rsrc1 >> 6 & 0xF == 2
    assert kernel.metadata.sgpr_count == 32
    over = rebuilt_kernel(exact.insert_after(0, ["s_mov_b32 s26, 0"]))
    assert over.fields.rsrc1 >> 6 & 0xF == 4


@pytest.mark.parametrize(
    ("arch", "text", "extra"),
    [
        ("gfx90a", "s_mov_b32 s31, 0", 4),
        ("gfx90a:xnack-", "s_mov_b32 s31, 0", 0),
        ("gfx90a:xnack-", "v_cmp_eq_u32_e32 vcc, 0, v0", 2),
        ("gfx90a:xnack-", "s_cbranch_vccz .Lkernel_end", 2),
        ("gfx90a:xnack-", "flat_load_dword v0, v[0:1]", 0),
        ("gfx90a:xnack-", "scratch_load_dword v0, off, s0", 6),
        ("gfx90a:xnack-", "s_mov_b32 flat_scratch_lo, 0", 6),
        ("gfx942", "s_mov_b32 s31, 0", 6),
    ],
)
def test_special_sgprs_depend_on_the_target_and_the_code(arch: str, text: str, extra: int) -> None:
    listing = recovered(["s_mov_b32 s7, 0", text, "s_endpgm"], arch=arch, sgprs=32)

    need = measure_need(listing, "kernel")

    assert need.sgprs == need.registers.sgprs + extra


def test_flat_access_needs_flat_scratch_where_there_is_scratch() -> None:
    code = ["flat_load_dword v0, v[0:1]", "s_endpgm"]
    listing = recovered(code, arch="gfx90a", scratch=16)

    assert measure_need(listing, "kernel").sgprs == 6


def test_deleted_use_shrinks_what_the_code_explained() -> None:
    listing = recovered(["v_mov_b32_e32 v20, 0", *CODE], total=24, accum=24)

    kernel = rebuilt_kernel(listing.delete([0]))

    assert kernel.fields.allocated_vgprs == 8
    assert kernel.fields.accum_offset == 4
    assert kernel.metadata.vgpr_count == 4


def test_shrinking_keeps_the_sgprs_that_the_hardware_writes() -> None:
    listing = recovered(["s_mov_b32 s40, 0", "s_endpgm"], sgprs=41)

    kernel = rebuilt_kernel(listing.delete([0]))

    assert kernel.fields.rsrc1 >> 6 & 0xF == 0
    assert kernel.fields.initial_sgpr_count + 6 <= 16


def test_declared_surplus_of_k0_stays_the_least() -> None:
    listing = recovered(CODE, total=128, accum=64)

    kept = rebuilt_kernel(listing.delete([0]))
    grown = rebuilt_kernel(listing.insert_after(0, ["v_mov_b32_e32 v99, 0"]))

    assert (kept.fields.allocated_vgprs, kept.fields.accum_offset) == (128, 64)
    assert (grown.fields.allocated_vgprs, grown.fields.accum_offset) == (128, 100)
    assert kept.metadata.vgpr_count == 128


def test_registers_reached_by_number_keep_what_k0_declares() -> None:
    indexed = ["s_set_gpr_idx_on s7, gpr_idx(SRC0)", "v_mov_b32_e32 v3, v0", "s_set_gpr_idx_off"]
    listing = recovered([*indexed, "v_mov_b32_e32 v20, 0", "s_endpgm"], total=24, accum=24)

    kernel = rebuilt_kernel(listing.delete([3]))

    assert kernel.fields.allocated_vgprs == 24
    assert kernel.metadata.vgpr_count == 24


def test_agprs_do_not_move_under_registers_reached_by_number() -> None:
    indexed = ["s_set_gpr_idx_on s7, gpr_idx(SRC0)", "v_mov_b32_e32 v3, v0", "s_set_gpr_idx_off"]
    code = [*indexed, "v_accvgpr_write_b32 a3, v0", "s_endpgm"]
    listing = recovered(code, total=8, accum=4, agprs=4)

    rebuilt_kernel(listing.insert_after(0, ["s_nop 0"]))
    with pytest.raises(ResourceRefusal, match=r"accum_offset cannot move: s_set_gpr_idx_on"):
        rebuild_listing(listing.insert_after(0, ["v_mov_b32_e32 v4, 0"]))


@pytest.mark.parametrize(
    "text",
    [
        "s_set_gpr_idx_on s7, gpr_idx(SRC0)",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 27, 1), 1",
        "s_swappc_b64 s[2:3], s[4:5]",
    ],
)
def test_new_reach_by_number_or_pointer_is_refused(exact: Listing, text: str) -> None:
    with pytest.raises(ResourceRefusal, match="cannot be recomputed"):
        compute_resources(exact.insert_after(0, [text]), "kernel")


def test_other_modes_may_be_set(exact: Listing) -> None:
    rebuild_listing(exact.insert_after(0, ["s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0xf"]))


def test_functions_called_count_for_the_kernel() -> None:
    call = [
        "s_getpc_b64 s[8:9]",
        "s_add_u32 s8, s8, helper@rel32@lo+4",
        "s_addc_u32 s9, s9, helper@rel32@hi+12",
        "s_swappc_b64 s[30:31], s[8:9]",
        "s_endpgm",
    ]
    functions = (
        ".p2align 2\n.type helper,@function\nhelper:\nv_mov_b32_e32 v7, 0\n"
        "s_setpc_b64 s[30:31]\n.Lh:\n.size helper, .Lh-helper\n"
    )
    listing = recovered(call, functions=functions, total=8, accum=8, sgprs=32)
    need = measure_need(listing, "kernel")
    assert need.registers.vgprs == 8
    assert need.registers.open_ends == ()

    edited = listing.insert_after(find(listing, "v_mov_b32_e32 v7"), ["v_mov_b32_e32 v30, 0"])

    assert rebuilt_kernel(edited).fields.allocated_vgprs == 32


def test_call_by_pointer_leaves_the_end_open() -> None:
    listing = recovered(["s_swappc_b64 s[30:31], s[8:9]", "s_endpgm"], sgprs=32)

    assert measure_need(listing, "kernel").registers.open_ends == ("it calls functions by pointer",)


def test_address_changed_before_the_call_leaves_the_end_open() -> None:
    call = [
        "s_getpc_b64 s[8:9]",
        "s_add_u32 s8, s8, kernel@rel32@lo+4",
        "s_addc_u32 s9, s9, kernel@rel32@hi+12",
        "s_mov_b32 s8, s10",
        "s_swappc_b64 s[30:31], s[8:9]",
        "s_endpgm",
    ]
    listing = recovered(call, sgprs=32)

    assert measure_need(listing, "kernel").registers.open_ends


def test_too_many_registers_are_refused() -> None:
    listing = recovered([*CODE[:2], "v_accvgpr_write_b32 a255, v0", "s_endpgm"], total=512, accum=8)
    grown = listing.insert_after(0, ["v_mov_b32_e32 v255, 0"])
    rebuilt = rebuilt_kernel(grown)
    assert (rebuilt.fields.allocated_vgprs, rebuilt.fields.accum_offset) == (512, 256)

    with pytest.raises(CodeObjectError, match="register out of range"):
        rebuild_listing(listing.insert_after(0, ["v_mov_b32_e32 v256, 0"]))


LDS = ["v_mov_b32_e32 v1, 0", "ds_read_b32 v2, v1 offset:60", *CODE]


def test_lds_grows_to_a_constant_address() -> None:
    listing = recovered(LDS, lds=64)

    edited = listing.insert_after(0, ["ds_write_b32 v1, v0 offset:128"])
    kernel = rebuilt_kernel(edited)

    assert kernel.fields.group_segment_size == 132
    assert kernel.metadata.group_segment_size == 132


def test_lds_of_unknown_launch_size_is_refused_or_asked_for() -> None:
    listing = recovered(CODE)
    edited = listing.insert_after(0, ["v_mov_b32_e32 v1, 0", "ds_write_b32 v1, v0 offset:128"])

    with pytest.raises(ResourceRefusal, match="up to byte 132"):
        rebuild_listing(edited)

    kernel = rebuilt_kernel(edited.reserve("kernel", group_segment_size=256))
    assert kernel.fields.group_segment_size == 256
    assert kernel.metadata.group_segment_size == 256


def test_lds_goes_with_its_last_access() -> None:
    listing = recovered(LDS, lds=64)

    assert rebuilt_kernel(listing.delete([1])).fields.group_segment_size == 0
    assert rebuilt_kernel(listing.delete([2])).fields.group_segment_size == 64


def test_lds_beyond_the_hardware_is_refused() -> None:
    listing = recovered(LDS, lds=64)

    with pytest.raises(ResourceRefusal, match=r"65540 bytes of LDS, above 65536"):
        rebuild_listing(listing.reserve("kernel", group_segment_size=65540))


def test_scratch_grows_and_is_enabled() -> None:
    edited = recovered(CODE).insert_after(0, ["scratch_store_dword off, v0, off offset:16"])

    kernel = rebuilt_kernel(edited)

    assert kernel.fields.private_segment_size == 20
    assert kernel.fields.enables_private_segment
    assert kernel.metadata.private_segment_size == 20


def test_scratch_that_code_would_have_to_set_up_is_refused() -> None:
    listing = recovered(CODE, arch="gfx90a")

    with pytest.raises(ResourceRefusal, match="would have to set it up"):
        compute_resources(listing.reserve("kernel", private_segment_size=16), "kernel")


def test_scratch_and_spills_go_with_the_last_access() -> None:
    spill = ["scratch_store_dword off, v0, off offset:12", *CODE]
    listing = recovered(spill, scratch=16, spills=1)

    code_object = CodeObject.read(rebuild_listing(listing.delete([0])))

    assert code_object.kernels[0].fields.private_segment_size == 0
    assert code_object.kernels[0].fields.enables_private_segment
    assert code_object.metadata["amdhsa.kernels"][0][".vgpr_spill_count"] == 0


def test_kernels_that_no_edit_touches_keep_their_bits(build_object: object) -> None:
    listing = recover(build_object("two_kernels"))  # type: ignore[operator]
    edited = listing.insert_after(find(listing, "v_mul_f32"), ["v_mov_b32_e32 v40, 0"])

    rebuilt = CodeObject.read(rebuild_listing(edited))

    first = listing.source.kernel("first").descriptor
    assert rebuilt.kernel("first").descriptor[24:] == first[24:]
    assert rebuilt.kernel("second").fields.accum_offset == 44
    assert rebuilt.kernel("second").fields.allocated_vgprs == 48


def test_vgprs_behind_the_accum_offset_stay_as_they_are_without_agprs() -> None:
    listing = recovered(["v_mov_b32_e32 v63, 0", *CODE], total=64, accum=32)

    kept = rebuilt_kernel(listing.insert_after(0, ["s_nop 0"]))
    grown = rebuilt_kernel(listing.insert_after(0, ["v_mov_b32_e32 v70, 0"]))
    parted = rebuilt_kernel(listing.insert_after(0, ["v_accvgpr_write_b32 a3, v0"]))

    assert (kept.fields.accum_offset, kept.fields.allocated_vgprs) == (32, 64)
    assert (grown.fields.accum_offset, grown.fields.allocated_vgprs) == (32, 72)
    assert (parted.fields.accum_offset, parted.fields.allocated_vgprs) == (64, 72)


def test_vgprs_that_overlap_agprs_cannot_grow() -> None:
    code = ["v_mov_b32_e32 v63, 0", "v_accvgpr_write_b32 a3, v0", *CODE]
    listing = recovered(code, total=64, accum=32)

    rebuilt_kernel(listing.insert_after(0, ["s_nop 0"]))
    with pytest.raises(ResourceRefusal, match="overlap"):
        compute_resources(listing.insert_after(0, ["v_mov_b32_e32 v64, 0"]), "kernel")


def test_processor_without_a_unified_file_keeps_what_k0_gives() -> None:
    text = write_kernel(CODE, arch="gfx908").replace("  .amdhsa_accum_offset 4\n", "")
    listing = recover(link(assemble(text, "gfx908")))

    kept = rebuilt_kernel(listing.insert_after(0, ["s_nop 0"]))
    assert kept.descriptor[44:] == listing.source.kernels[0].descriptor[44:]
    with pytest.raises(ResourceRefusal, match="uses more than K0"):
        rebuild_listing(listing.insert_after(0, ["v_mov_b32_e32 v9, 0"]))


def test_descriptor_and_metadata_kept_as_bytes_grow_as_well() -> None:
    data = build_kernel(CODE)
    source = CodeObject.read(data)
    reserved = data.index(source.kernels[0].descriptor) + 28
    data = data[:reserved] + b"\x5a" + data[reserved + 1 :]
    swapped = source.metadata_note.replace(b"\xab.agpr_count\x00", b"?" * 13)
    swapped = swapped.replace(b"\xab.vgpr_count\x08", b"\xab.agpr_count\x00")
    swapped = swapped.replace(b"?" * 13, b"\xab.vgpr_count\x08")
    listing = recover(data.replace(source.metadata_note, swapped))
    assert listing.has_raw_metadata
    assert listing.raw_descriptors == {"kernel"}

    kernel = rebuilt_kernel(listing.insert_after(0, ["v_mov_b32_e32 v200, 0"]))

    assert kernel.fields.accum_offset == 204
    assert kernel.metadata.vgpr_count == 201
    assert kernel.descriptor[28] == 0x5A


def test_largest_workgroup_must_fit_still() -> None:
    text = write_kernel(CODE).replace(
        ".max_flat_workgroup_size: 64", ".max_flat_workgroup_size: 1024"
    )
    listing = recover(link(assemble(text, "gfx942")))

    rebuilt_kernel(listing.insert_after(0, ["v_mov_b32_e32 v127, 0"]))
    with pytest.raises(ResourceRefusal, match="workgroups of 1024; one would not fit"):
        rebuild_listing(listing.insert_after(0, ["v_mov_b32_e32 v128, 0"]))
