"""The kernels that `scripts/bench_emulator` measures: each a gfx942 loop of one kind of work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["ARCH", "Workload", "instruction_workloads", "matrix_workloads", "source"]

ARCH = "gfx942"

_TEMPLATE = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl k
.p2align 8
.type k,@function
k:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 2, v0
  v_lshlrev_b32_e32 v2, 4, v0
  v_cvt_f32_u32_e32 v3, v0
  v_mul_f32_e32 v3, 0x3a800000, v3
{init}
  s_movk_i32 s8, {rounds}
  s_waitcnt lgkmcnt(0)
.Lloop:
{body}
  s_sub_u32 s8, s8, 1
  s_cmp_lg_u32 s8, 0
  s_cbranch_scc1 .Lloop
  s_endpgm
.size k, .-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_kernarg_size 16
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_next_free_vgpr 128
  .amdhsa_accum_offset 128
  .amdhsa_next_free_sgpr 64
  .amdhsa_float_denorm_mode_32 3
  .amdhsa_group_segment_fixed_size 16384
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 16
    .group_segment_fixed_size: 16384
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 64
    .vgpr_count: 128
    .max_flat_workgroup_size: 1024
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}
...
.end_amdgpu_metadata
"""


def _registers(first: int, count: int) -> str:
    return "\n".join(f"  v_mov_b32_e32 v{i}, v3" for i in range(first, first + count))


def _repeat(lines: tuple[str, ...], count: int) -> str:
    """`count` copies; {i} is the copy's number in eights, {j} the next one's."""
    return "\n".join(
        "  " + line.format(i=16 + n % 8, j=16 + (n + 1) % 8, p=32 + 4 * (n % 4))
        for n in range(count)
        for line in lines
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One kind of work: its loop body, and what counts in it."""

    name: str
    body: str
    init: str = ""
    rounds: int = 2000
    macs: int = 0  # of one round and wave; 0: instructions are counted


_ELEMENTWISE = """
  global_load_dword v16, v1, s[6:7]
  s_add_u32 s10, s8, 3
  s_waitcnt vmcnt(0)
  v_fma_f32 v17, v16, v3, v3
  v_max_f32_e32 v18, 0, v17
  v_mul_f32_e32 v18, 0xbfb8aa3b, v18
  v_exp_f32_e32 v18, v18
  s_and_b32 s11, s10, 7
  v_add_f32_e32 v18, 1.0, v18
  v_cmp_gt_f32_e32 vcc, v17, v18
  s_nop 1
  v_cndmask_b32_e32 v19, v17, v18, vcc
  v_add_u32_e32 v20, s10, v1
  global_store_dword v1, v19, s[4:5]
"""
# Each wave has bytes of its own, so that no checked access is a race.
_LDS = """
  ds_write_b32 v1, v16 offset:8192
  ds_write_b128 v2, v[32:35]
  s_waitcnt lgkmcnt(0)
  ds_read_b32 v17, v1 offset:8192
  ds_read_b128 v[36:39], v2
  ds_read2_b32 v[20:21], v2 offset1:1
  s_waitcnt lgkmcnt(0)
"""
_MEMORY = """
  global_load_dwordx4 v[32:35], v2, s[6:7]
  global_load_dword v17, v1, s[6:7]
  s_waitcnt vmcnt(0)
  global_store_dwordx4 v2, v[32:35], s[4:5]
  global_store_dword v1, v17, s[4:5]
"""


def source(work: Workload) -> str:
    """The kernel's assembly text."""
    return _TEMPLATE.format(init=work.init, body=work.body, rounds=work.rounds)


def instruction_workloads() -> Iterator[Workload]:
    """Work that is counted in wave instructions."""
    scalar = ("s_add_u32 s10, s11, s8", "s_xor_b32 s11, s10, s8", "s_lshl_b32 s12, s10, 3")
    integer = (
        "v_add_u32_e32 v{i}, v{j}, v1",
        "v_and_b32_e32 v{j}, 0xff, v{i}",
        "v_lshl_add_u32 v{i}, v{j}, 2, v1",
    )
    eight = _registers(16, 8)
    yield Workload(name="SALU", init="  s_mov_b32 s11, 1", body=_repeat(scalar, 24))
    yield Workload(
        name="v_add_f32", init=eight, body=_repeat(("v_add_f32_e32 v{i}, v{j}, v3",), 64)
    )
    fma = _repeat(("v_fma_f32 v{i}, v{j}, v3, v{i}",), 64)
    yield Workload(name="v_fma_f32", init=eight, body=fma)
    partial = eight + "\n  s_mov_b64 exec, 0xffff"
    yield Workload(name="v_fma_f32, 16 lanes", init=partial, body=fma)
    yield Workload(name="integer mix", init=eight, body=_repeat(integer, 20))
    yield Workload(name="elementwise mix", init=eight, body=_ELEMENTWISE * 4)
    wide = _registers(16, 8) + "\n" + _registers(32, 8)
    yield Workload(name="LDS mix", init=wide, body=_LDS * 4)
    yield Workload(name="loads and stores", init=wide, body=_MEMORY * 4)


# Operation, dwords of A and of B, dwords of the result, MACs.
_MATRIX = (
    ("v_mfma_f32_32x32x8_f16", 2, 16, 32 * 32 * 8),
    ("v_mfma_f32_16x16x16_f16", 2, 4, 16 * 16 * 16),
    ("v_mfma_f32_32x32x8_bf16", 2, 16, 32 * 32 * 8),
    ("v_mfma_f32_32x32x16_fp8_fp8", 2, 16, 32 * 32 * 16),
    ("v_mfma_f32_32x32x16_bf8_bf8", 2, 16, 32 * 32 * 16),
    ("v_mfma_i32_32x32x16_i8", 2, 16, 32 * 32 * 16),
    ("v_mfma_f32_32x32x4_xf32", 2, 16, 32 * 32 * 4),
    ("v_mfma_f32_32x32x2_f32", 1, 16, 32 * 32 * 2),
    ("v_mfma_f64_16x16x4_f64", 2, 8, 16 * 16 * 4),
)
_IN_ROUND = 4


def matrix_workloads() -> Iterator[Workload]:
    """Work that is counted in multiply-adds: four independent sums."""
    # Finite values of each type: hardware's rules for infinities and NaNs take a slower way here.
    bytes_ = "\n".join(
        f"  v_xor_b32_e32 v{i}, 0x2c312a35, v3\n  v_and_b32_e32 v{i}, 0x3f3f3f3f, v{i}"
        for i in range(16, 24)
    )
    halves = "\n".join(f"  v_cvt_pkrtz_f16_f32 v{i}, v3, v3" for i in range(16, 24))
    for name, factor, result, macs in _MATRIX:
        left, right = f"v[16:{15 + factor}]", f"v[18:{17 + factor}]"
        if factor == 1:
            left, right = "v16", "v18"
        body = "\n".join(
            f"  {name} v[{d}:{d + result - 1}], {left}, {right}, v[{d}:{d + result - 1}]"
            for d in range(32, 32 + 16 * _IN_ROUND, 16)
        )
        floats = "\n".join(f"  v_mov_b32_e32 v{i}, v3" for i in range(16, 24))
        is_small = name.endswith(("fp8", "bf8", "i8"))
        values = floats if factor == 1 else bytes_ if is_small else halves
        init = _registers(32, 64) + "\n" + values
        yield Workload(name=name, init=init, body=body, rounds=200, macs=_IN_ROUND * macs)
