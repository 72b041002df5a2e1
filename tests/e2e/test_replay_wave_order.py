"""A lost barrier that one order of the waves hides is seen in the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_bundle import Buffer, write_small_bundle

from asmevo.codeobject import toolchain
from asmevo.replay.device import Device
from asmevo.replay.engine import replay
from asmevo.verdict import Status

_OUT, _BYTES = 0x7E0000000000, 512
_SOURCE = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl pass_on
.p2align 8
.type pass_on,@function
; The first wave writes LDS, the second copies it to the output.
pass_on:
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_readfirstlane_b32 s6, v0
  v_and_b32_e32 v0, 63, v0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  s_cmp_lg_u32 s6, 0
  s_cbranch_scc1 .Lsecond
  ds_write_b32 v1, v0
  s_waitcnt lgkmcnt(0)
  s_barrier
  s_endpgm
.Lsecond:
  s_barrier
  ds_read_b32 v2, v1
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v2, s[4:5]
  s_endpgm
.Lend:
.size pass_on, .Lend-pass_on
.rodata
.p2align 6
.amdhsa_kernel pass_on
  .amdhsa_kernarg_size 8
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
  .amdhsa_group_segment_fixed_size 256
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx942
amdhsa.kernels:
  - .name: pass_on
    .symbol: pass_on.kd
    .kernarg_segment_size: 8
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 256
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 8
    .max_flat_workgroup_size: 128
    .args:
      - {.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}
...
.end_amdgpu_metadata
"""


def _assemble(text: str) -> bytes:
    return toolchain.link(toolchain.assemble(text, "gfx942"))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    expected = b"".join(n.to_bytes(4, "little") for n in range(64)) + bytes(_BYTES - 256)
    return write_small_bundle(
        tmp_path / "pass_on.aeb",
        kernel="pass_on",
        code_object=_assemble(_SOURCE),
        buffers=[Buffer(address=_OUT, before=bytes(_BYTES), after=expected)],
        block=(128, 1, 1),
    )


def test_replay_of_candidate_without_its_barrier_is_divergent(bundle: Path, tmp_path: Path) -> None:
    candidate = tmp_path / "no_barrier.hsaco"
    candidate.write_bytes(_assemble(_SOURCE.replace("  s_barrier\n", "")))
    same = tmp_path / "same.hsaco"
    same.write_bytes(_assemble(_SOURCE))

    result = replay(bundle, [candidate, same], device=Device.parse("emulated"))

    lost, kept = (one.verdict for one in result.candidates)
    assert result.k0.verdict.has_passed, result.k0.verdict.reasons
    assert lost.status is Status.DIVERGENT
    assert "against K0 with the waves' turns reversed" in lost.reasons[0]
    assert kept.has_passed, kept.reasons
