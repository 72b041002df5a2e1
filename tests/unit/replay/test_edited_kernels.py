"""Edited kernels on the emulated device, which faults beyond what a descriptor allocates."""

from __future__ import annotations

import pytest
from emulator_kernel import Outcome, kernel_text, run_image

from asmevo.codeobject.listing import Listing
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.codeobject.resources import ResourceRefusal
from asmevo.codeobject.toolchain import assemble, link

_BODY = """\
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 2, v0
  v_mul_u32_u24_e32 v2, 3, v0
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v2, s[4:5]
  s_endpgm"""


def listing_for(target: str) -> Listing:
    text = kernel_text(_BODY, target=target, vgprs=4)
    # A workgroup of 1024 has no room for more than 128 registers.
    text = text.replace(".max_flat_workgroup_size: 1024", ".max_flat_workgroup_size: 256")
    return recover(link(assemble(text, target)))


def run(listing: Listing, target: str) -> Outcome:
    return run_image(rebuild_listing(listing), target=target)


def through(listing: Listing, *texts: str) -> Listing:
    """Behind the multiplication, so that v2 may take another way."""
    product = next(one for one in listing.instructions if one.mnemonic.startswith("v_mul"))
    return listing.insert_after(product.id, texts)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize(
    "texts",
    [
        ["v_mov_b32_e32 v130, v2", "v_mov_b32_e32 v2, v130"],
        ["v_accvgpr_write_b32 a70, v2", "s_nop 7", "v_accvgpr_read_b32 v2, a70"],
        [
            "v_mov_b32_e32 v255, v2",
            "v_accvgpr_write_b32 a255, v255",
            "s_nop 7",
            "v_accvgpr_read_b32 v2, a255",
        ],
        ["s_mov_b32 s99, 1", "s_nop 4", "v_mul_lo_u32 v2, v2, s99"],
        [
            *("scratch_store_dword off, v2, off offset:60", "s_waitcnt vmcnt(0)"),
            *("scratch_load_dword v2, off, off offset:60", "s_waitcnt vmcnt(0)"),
        ],
    ],
)
def test_registers_and_scratch_that_an_edit_uses_are_there(target: str, texts: list[str]) -> None:
    edited = through(listing_for(target), *texts)
    if target == "gfx90a" and texts[0].startswith("scratch"):
        with pytest.raises(ResourceRefusal, match="would have to set it up"):
            rebuild_listing(edited)
        return

    outcome = run(edited, target)

    assert outcome.ok, outcome.report
    assert outcome.words()[:64] == [3 * lane for lane in range(64)]


def test_lds_that_an_edit_asks_for_is_there() -> None:
    texts = ["ds_write_b32 v1, v2 offset:512", "s_waitcnt lgkmcnt(0)"]
    texts += ["ds_read_b32 v2, v1 offset:512", "s_waitcnt lgkmcnt(0)"]
    edited = through(listing_for("gfx942"), *texts)

    without = run(edited, "gfx942")
    given = run(edited.reserve("k", group_segment_size=768), "gfx942")

    assert not without.ok
    assert given.ok, given.report
    assert given.words()[:64] == [3 * lane for lane in range(64)]
