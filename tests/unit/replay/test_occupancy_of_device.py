"""The emulated device counts resident workgroups as `codeobject.occupancy` does."""

from __future__ import annotations

import ctypes
from itertools import product

import pytest
from test_hip_module import load

from asmevo.codeobject import toolchain
from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.occupancy import compute_occupancy
from asmevo.codeobject.resource_records import declared_resources

_TEXT = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl kernel
.p2align 8
.type kernel,@function
kernel:
  s_endpgm
.rodata
.p2align 6
.amdhsa_kernel kernel
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_next_free_vgpr {vgprs}
  .amdhsa_next_free_sgpr {sgprs}
  .amdhsa_accum_offset {accum}
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: kernel
    .symbol: kernel.kd
    .kernarg_segment_size: 0
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: {sgprs}
    .vgpr_count: {vgprs}
    .max_flat_workgroup_size: 1024
...
.end_amdgpu_metadata
"""


@pytest.mark.parametrize(
    ("vgprs", "accum", "sgprs", "lds"),
    [
        (1, 4, 1, 0),
        (72, 72, 90, 1000),
        (128, 64, 102, 16384),
        (200, 100, 20, 40000),
        (256, 256, 60, 0),
        (512, 256, 102, 65536),
    ],
)
def test_device_holds_as_many_workgroups(
    hip_library: ctypes.CDLL, vgprs: int, accum: int, sgprs: int, lds: int
) -> None:
    text = _TEXT.format(vgprs=vgprs, accum=accum, sgprs=sgprs, lds=lds)
    data = toolchain.link(toolchain.assemble(text, "gfx942"))
    (kernel,) = CodeObject.read(data).kernels
    status, module = load(hip_library, data)
    assert status == 0
    function = ctypes.c_void_p()
    assert hip_library.hipModuleGetFunction(ctypes.byref(function), module, b"kernel") == 0

    for size, dynamic in product((1, 64, 65, 128, 256, 512, 1000, 1024), (0, 300, 20000)):
        blocks = ctypes.c_int()
        status = hip_library.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(blocks), function, size, ctypes.c_size_t(dynamic)
        )
        ours = compute_occupancy(
            declared_resources(kernel), "gfx942", workgroup_size=size, dynamic_lds=dynamic
        )
        assert (status, blocks.value) == (0, ours.workgroups), (size, dynamic)

    assert hip_library.hipModuleUnload(module) == 0
