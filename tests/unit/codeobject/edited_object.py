"""Small code objects with chosen code and resources, and how tests edit them."""

from __future__ import annotations

from collections.abc import Sequence

from asmevo.codeobject.code_object import CodeObject, Kernel
from asmevo.codeobject.listing import Listing
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.toolchain import assemble, link

__all__ = ["build_kernel", "find", "rebuilt_kernel", "write_kernel"]

_TEXT = """\
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.amdhsa_code_object_version 5
.text
.globl kernel
.p2align 8
.type kernel,@function
kernel:
{code}
.Lkernel_end:
.size kernel, .Lkernel_end-kernel
{functions}
.rodata
.p2align 6
.amdhsa_kernel kernel
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_private_segment_fixed_size {scratch}
  .amdhsa_kernarg_size 8
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  {scratch_directive}
  .amdhsa_next_free_vgpr {total}
  .amdhsa_next_free_sgpr {sgprs}
  .amdhsa_accum_offset {accum}
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--{arch}
amdhsa.kernels:
  - .name: kernel
    .symbol: kernel.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: {scratch}
    .wavefront_size: 64
    .sgpr_count: {sgpr_count}
    .vgpr_count: {total}
    .agpr_count: {agprs}
    .sgpr_spill_count: 0
    .vgpr_spill_count: {spills}
    .max_flat_workgroup_size: 64
    .args:
      - {{.name: out, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
...
.end_amdgpu_metadata
"""


def write_kernel(
    code: Sequence[str],
    *,
    arch: str = "gfx942",
    total: int = 8,
    accum: int = 4,
    agprs: int = 0,
    sgprs: int = 8,
    lds: int = 0,
    scratch: int = 0,
    spills: int = 0,
    functions: str = "",
) -> str:
    """Assembly of one kernel, `kernel`."""
    scratch_directive = ""
    if scratch:
        scratch_directive = (
            ".amdhsa_system_sgpr_private_segment_wavefront_offset 1"
            if arch == "gfx90a"
            else ".amdhsa_enable_private_segment 1"
        )
    return _TEXT.format(
        arch=arch,
        code="\n".join(code),
        functions=functions,
        total=total,
        accum=accum,
        agprs=agprs,
        sgprs=sgprs,
        sgpr_count=sgprs + 6,
        lds=lds,
        scratch=scratch,
        spills=spills,
        scratch_directive=scratch_directive,
    )


def build_kernel(code: Sequence[str], **values: object) -> bytes:
    """The assembled and linked object."""
    arch = str(values.get("arch", "gfx942"))
    return link(assemble(write_kernel(code, **values), arch))  # type: ignore[arg-type]


def find(listing: Listing, text: str) -> int:
    """Id of the first instruction that starts with `text`."""
    return next(one.id for one in listing.instructions if one.text.startswith(text))


def rebuilt_kernel(listing: Listing) -> Kernel:
    """The first kernel of the rebuilt object."""
    return CodeObject.read(rebuild_listing(listing)).kernels[0]
