"""The dispatch of the self-test: memory of every kind, a module global, and the kernel's text."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import asmevo
from asmevo.capture.bundle import RegionContent, write_bundle
from asmevo.capture.manifest import CaptureFacts, DispatchRecord, PointerReference, RegionKind
from asmevo.codeobject import toolchain

__all__ = ["COUNT", "STORE", "assemble_self_test", "write_self_test"]

COUNT = 256
"""Elements of the output."""
_BASE, _STEP = 0x7E0000000000, 4 << 20  # a granule of its own for each kind of memory
_FACTOR = 3.0
# out[i] = factor * x[i] + m[i]; the first item adds 1 to the global's second word. x is pinned host
# memory, m managed.
_KERNEL = """
.amdgcn_target "amdgcn-amd-amdhsa--ARCH"
.text
.globl self_test
.p2align 8
.type self_test,@function
self_test:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_load_dwordx2 s[12:13], s[0:1], 0x10
  s_getpc_b64 s[8:9]
  s_add_u32 s8, s8, self_test_state@rel32@lo+4
  s_addc_u32 s9, s9, self_test_state@rel32@hi+12
  s_load_dword s10, s[8:9], 0x0
  v_and_b32_e32 v0, 0x3ff, v0
  v_lshl_or_b32 v1, s2, 6, v0
  v_lshlrev_b32_e32 v2, 2, v1
  s_waitcnt lgkmcnt(0)
  global_load_dword v3, v2, s[6:7]
  global_load_dword v4, v2, s[12:13]
  s_waitcnt vmcnt(0)
  v_mul_f32_e32 v3, s10, v3
  v_add_f32_e32 v3, v3, v4
STORE
  v_mov_b32_e32 v5, 4
  v_mov_b32_e32 v6, 1
  v_cmp_eq_u32_e32 vcc, 0, v1
  s_and_saveexec_b64 s[10:11], vcc
  s_cbranch_execz .Lend
  global_atomic_add v5, v6, s[8:9]
.Lend:
  s_endpgm
.Lafter:
.size self_test, .Lafter-self_test
.data
.globl self_test_state
.protected self_test_state
.type self_test_state,@object
.p2align 3
self_test_state:
  .long 0
  .long 0
.size self_test_state, 8
.rodata
.p2align 6
.amdhsa_kernel self_test
  .amdhsa_kernarg_size 24
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--ARCH
amdhsa.kernels:
  - .name: self_test
    .symbol: self_test.kd
    .kernarg_segment_size: 24
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 16
    .vgpr_count: 8
    .agpr_count: 0
    .max_flat_workgroup_size: 64
    .args:
      - {.name: out, .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.name: x, .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}
      - {.name: m, .offset: 16, .size: 8, .value_kind: global_buffer, .address_space: global}
...
.end_amdgpu_metadata
"""
STORE = "  global_store_dword v2, v3, s[4:5]"
"""The line that stores the result; candidates differ in it."""


def assemble_self_test(arch: str, store: str) -> bytes:
    """The kernel with other lines in the place of its store."""
    text = _KERNEL.replace("ARCH", arch).replace("STORE", store)
    return toolchain.link(toolchain.assemble(text, arch))


def write_self_test(folder: Path, arch: str) -> Path:
    """The bundle, with the output that the host computes as the golden one."""
    x = np.arange(COUNT, dtype=np.float32)
    m = x[::-1] * np.float32(0.5)
    out = x * np.float32(_FACTOR) + m
    state = [np.float32(_FACTOR).tobytes() + count.to_bytes(4, "little") for count in (7, 8)]
    kinds = (RegionKind.DEVICE, RegionKind.PINNED_HOST, RegionKind.MANAGED)
    contents = ((bytes(out.nbytes), out.tobytes()), (x.tobytes(),) * 2, (m.tobytes(),) * 2)
    addresses = [_BASE + index * _STEP for index in range(3)]
    regions = [
        _region(address, kind, before, after, 8 * index)
        for index, (address, kind, (before, after)) in enumerate(
            zip(addresses, kinds, contents, strict=True)
        )
    ]
    regions.append(
        RegionContent(
            address=_BASE - _STEP,
            size_bytes=8,
            kind=RegionKind.MODULE_GLOBAL,
            pointers=(),
            symbol="self_test_state",
            before=_give(state[0]),
            after=_give(state[1]),
        )
    )
    path = folder / "self_test.aeb"
    kernarg = b"".join(address.to_bytes(8, "little") for address in addresses)
    write_bundle(
        path,
        dispatch=DispatchRecord(
            kernel="self_test",
            arch=arch,
            launch_function="hipModuleLaunchKernel",
            grid=(COUNT // 64, 1, 1),
            block=(64, 1, 1),
            dynamic_lds_bytes=0,
            kernarg_bytes=len(kernarg),
            stream=0,
        ),
        capture=CaptureFacts(
            tool_version=asmevo.__version__,
            pid=os.getpid(),
            command=("asmevo doctor",),
            time_utc=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            ordinal=0,
            pause_ms=0.0,
        ),
        code_object=assemble_self_test(arch, STORE),
        kernarg=kernarg,
        regions=regions,
    )
    return path


def _give(data: bytes) -> Callable[[], list[bytes]]:
    return lambda: [data]


def _region(
    address: int, kind: RegionKind, before: bytes, after: bytes, kernarg_offset: int
) -> RegionContent:
    return RegionContent(
        address=address,
        size_bytes=len(before),
        kind=kind,
        pointers=(PointerReference(kernarg_offset=kernarg_offset, region_offset=0),),
        before=_give(before),
        after=_give(after),
    )
