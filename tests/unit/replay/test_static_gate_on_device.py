"""What the optimizer's static gate accepts must do the same on the emulated device.

Random edits of a kernel that has one of everything that is easily got wrong: SCC, VCC, EXEC and M0,
masked writes, halves of registers, other lanes, matrix accumulators, LDS, scalar loads and a loop.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from kernel_runner import KernelOptions, run_code_object

from asmevo.codeobject.analysis.control_flow import AnalysisRefusal
from asmevo.codeobject.rebuild import rebuild_listing
from asmevo.codeobject.recover import recover
from asmevo.codeobject.toolchain import assemble, link
from asmevo.errors import UsageError
from asmevo.optimizer.gate.static import find_static_faults
from asmevo.optimizer.kernel_view import KernelView, view_kernel
from asmevo.optimizer.proposal import Delete, Edit, Move, Replace

KERNEL = "kernel"
BODY = """
  v_lshlrev_b32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  s_load_dwordx2 s[20:21], s[6:7], 0x40
  v_mov_b32 v3, s7
  v_add_co_u32 v2, vcc, s6, v1
  s_nop 1
  v_addc_co_u32 v3, vcc, 0, v3, vcc
  global_load_dword v10, v[2:3], off
  global_load_dword v11, v[2:3], off offset:256
  v_mov_b32 v18, v0
  global_load_short_d16_hi v18, v[2:3], off offset:512
  v_mov_b32 v12, v0
  v_mov_b32 v13, 1.0
  s_waitcnt vmcnt(1)
  ds_write_b32 v1, v11
  v_cmp_gt_u32 vcc, 40, v0
  s_cmp_lt_u32 s12, 3
  s_waitcnt vmcnt(0) lgkmcnt(0)
  v_xor_b32 v10, v10, v18
  v_add_u32_sdwa v12, v10, v11 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_1
  s_cselect_b32 s22, s20, s21
  s_and_saveexec_b64 s[30:31], vcc
  s_cbranch_execz .Ljoin
  v_add_f32 v10, v10, v11
  v_max_f32 v10, v10, v10
  v_xor_b32 v12, v12, v11
  ds_read_b32 v14, v1 offset:16
  s_waitcnt lgkmcnt(0)
  v_add_u32 v12, v12, v14
.Ljoin:
  s_or_b64 exec, exec, s[30:31]
  s_mov_b32 s23, 2
.Lloop:
  s_nop 4
  v_mov_b32_dpp v15, v12 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0
  v_add_f32_dpp v13, v12, v10 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0x5
  v_xor_b32 v12, v12, v15
  s_add_u32 s22, s22, s20
  s_addc_u32 s24, s21, 0
  v_fma_f16 v15, v12, v11, v10 op_sel:[0,1,0,1]
  ds_write_b16 v1, v15 offset:258
  ds_read_b32 v16, v1 offset:256
  s_waitcnt lgkmcnt(0)
  v_add_u32 v12, v12, v16
  s_sub_u32 s23, s23, 1
  s_cmp_lg_u32 s23, 0
  s_cbranch_scc1 .Lloop
  v_accvgpr_write_b32 a0, v10
  v_accvgpr_write_b32 a1, v11
  v_accvgpr_write_b32 a2, v12
  v_accvgpr_write_b32 a3, v13
  s_nop 1
  v_mfma_f32_4x4x4f16 a[0:3], v[10:11], v[12:13], a[0:3]
  v_mov_b32 v5, s5
  v_add_co_u32 v4, vcc, s4, v1
  s_nop 1
  v_addc_co_u32 v5, vcc, 0, v5, vcc
  global_store_dword v[4:5], v12, off
  global_store_dword v[4:5], v13, off offset:256
  v_add_u32 v12, s22, v12
  v_add_u32 v13, s24, v13
  s_nop 3
  v_accvgpr_read_b32 v17, a2
  global_store_dword v[4:5], v12, off offset:512
  global_store_dword v[4:5], v13, off offset:768
  global_store_dword v[4:5], v17, off offset:1024
"""
HEAD = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl kernel
.p2align 8
.type kernel,@function
kernel:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_mov_b32 s12, 2
"""
TAIL = """
  s_endpgm
.size kernel, .-kernel
.rodata
.p2align 6
.amdhsa_kernel kernel
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 36
  .amdhsa_accum_offset 32
  .amdhsa_next_free_sgpr 40
  .amdhsa_kernarg_size 16
  .amdhsa_group_segment_fixed_size 1024
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: kernel
    .symbol: kernel.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 1024
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 40
    .vgpr_count: 32
    .agpr_count: 4
    .max_flat_workgroup_size: 64
    .args:
      - {.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}
.end_amdgpu_metadata
"""
TRIES = 120


def outputs(data: bytes) -> list[bytes]:
    """What the kernel writes for random bits, and for floats with a half-empty wave."""
    source = np.random.default_rng(1)
    bits = source.integers(0, 2**32, 512, dtype=np.uint32)
    floats = source.normal(size=512).astype(np.float32).view(np.uint32)
    found = []
    for values, lanes in ((bits, 64), (floats, 44)):
        buffers = [np.zeros(512, np.uint32), values.copy()]
        options = KernelOptions(lds=1024, block=(lanes, 1, 1))
        found += [one.tobytes() for one in run_code_object("gfx942", data, buffers, options)]
    return found


def random_edit(view: KernelView, source: random.Random) -> Edit:
    instructions = view.program.instructions
    at = source.randrange(len(instructions))
    one = instructions[at]
    if one.mnemonic == "s_nop" and source.random() < 0.7:
        return Replace(id=one.id, texts=(f"s_nop {source.randrange(3)}",))
    if one.mnemonic == "s_waitcnt" and source.random() < 0.7:
        counter = source.choice(("vmcnt", "lgkmcnt"))
        return Replace(id=one.id, texts=(f"s_waitcnt {counter}({source.randrange(3)})",))
    if source.random() < 0.3:
        return Delete(ids=(one.id,))
    reach = range(max(at - 6, 0), min(at + 7, len(instructions)))
    return Move(id=one.id, after_id=instructions[source.choice([i for i in reach if i != at])].id)


@pytest.mark.parametrize("seed", [1, 2])
def test_edits_that_the_static_gate_accepts_change_no_output(seed: int) -> None:
    k0 = link(assemble(HEAD + BODY + TAIL, "gfx942"))
    view = view_kernel(recover(k0), KERNEL)
    assert not view.wait_violations
    assert not view.hazards
    expected = outputs(k0)
    source = random.Random(seed)
    accepted = 0
    for _ in range(TRIES):
        edit = random_edit(view, source)
        try:
            listing = edit.apply(view.listing)
            candidate = view_kernel(listing, KERNEL)
        except (UsageError, AnalysisRefusal):
            continue
        if any(find_static_faults(view, candidate)):
            continue
        accepted += 1
        assert outputs(rebuild_listing(listing)) == expected, edit
    assert accepted > TRIES // 10
