"""Assembles small kernels and runs them on the emulated device, for tests of its instructions.

A kernel gets its buffers' addresses in s[4:5], s[6:7], … and the lane number in v0; everything else
is the body's. The device runs in a child process for each architecture, so that a fault, which is
sticky in HIP, costs only that process.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmevo import native
from asmevo.codeobject.toolchain import assemble, link

__all__ = ["KernelFault", "KernelOptions", "build_kernel", "run_code_object", "run_kernel"]

Array = NDArray[Any]

_TEMPLATE = """\
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl kernel
.p2align 8
.type kernel,@function
kernel:
{prologue}
{body}
  s_endpgm
.size kernel, .-kernel
.section .rodata,"a",@progbits
.p2align 6
.amdhsa_kernel kernel
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr {vgprs}
  .amdhsa_accum_offset {accum_offset}
  .amdhsa_next_free_sgpr 96
  .amdhsa_kernarg_size {kernarg_bytes}
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_private_segment_fixed_size {scratch}
  {enable_scratch} {scratch_bit}
  .amdhsa_float_denorm_mode_32 3
  .amdhsa_float_denorm_mode_16_64 3
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: kernel
    .symbol: kernel.kd
    .kernarg_segment_size: {kernarg_bytes}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: {scratch}
    .wavefront_size: 64
    .sgpr_count: 96
    .vgpr_count: 512
    .agpr_count: 256
    .max_flat_workgroup_size: 1024
    .args:
{arguments}
.end_amdgpu_metadata
"""


class KernelFault(Exception):
    """The launch failed; the text is the device's report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelOptions:
    """What a kernel needs besides its instructions."""

    lds: int = 0
    scratch: int = 0
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (64, 1, 1)
    environment: tuple[tuple[str, str], ...] = ()  # of the device's process


def _source(arch: str, body: str, buffer_count: int, options: KernelOptions) -> str:
    prologue = ["  s_mov_b64 s[2:3], s[0:1]"]
    for index in range(buffer_count):
        first = 4 + 2 * index
        prologue.append(f"  s_load_dwordx2 s[{first}:{first + 1}], s[2:3], {8 * index:#x}")
    prologue.append("  s_waitcnt lgkmcnt(0)")
    argument = (
        "      - {{.offset: {}, .size: 8, .value_kind: global_buffer, .address_space: global}}"
    )
    enable = (
        "system_sgpr_private_segment_wavefront_offset"
        if arch == "gfx90a"
        else ("enable_private_segment")
    )
    # Each of four SIMDs has 512 registers for its share of the waves.
    waves = (options.block[0] * options.block[1] * options.block[2] + 63) // 64
    vgprs = 512 // ((waves + 3) // 4) // 8 * 8
    return _TEMPLATE.format(
        arch=arch,
        vgprs=vgprs,
        accum_offset=vgprs // 2 // 4 * 4,
        prologue="\n".join(prologue),
        body=body,
        kernarg_bytes=8 * buffer_count,
        lds=options.lds,
        scratch=options.scratch,
        enable_scratch=f".amdhsa_{enable}",
        scratch_bit=int(options.scratch > 0),
        arguments="\n".join(argument.format(8 * index) for index in range(buffer_count)),
    )


@cache
def _build(source: str, arch: str) -> bytes:
    return link(assemble(source, arch))


class _Child:
    def __init__(self, arch: str, extra: tuple[tuple[str, str], ...]) -> None:
        library = native.emulator_library()
        environment = {**os.environ, **dict(extra), "ASMEVO_EMULATOR_ARCH": arch}
        environment.pop("ASMEVO_EMULATOR_CHIP", None)
        script = Path(__file__).with_name("kernel_child.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(library)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, request: dict[str, Any]) -> tuple[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        pickle.dump(request, self._process.stdin)
        self._process.stdin.flush()
        answer: tuple[str, Any] = pickle.load(self._process.stdout)
        return answer

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait(timeout=20)


_children: dict[tuple[str, tuple[tuple[str, str], ...]], _Child] = {}


@atexit.register
def _close_children() -> None:
    for child in _children.values():
        child.close()


def run_kernel(
    arch: str, body: str, buffers: Sequence[Array], options: KernelOptions | None = None
) -> list[Array]:
    """Run the body once and return the buffers as they are afterwards.

    Raises:
        KernelFault: The device reported a failed dispatch.
    """
    options = options or KernelOptions()
    return run_code_object(arch, build_kernel(arch, body, len(buffers), options), buffers, options)


def build_kernel(arch: str, body: str, buffer_count: int, options: KernelOptions) -> bytes:
    """The code object of a body: its function `kernel`."""
    return _build(_source(arch, body, buffer_count, options), arch)


def run_code_object(
    arch: str, code_object: bytes, buffers: Sequence[Array], options: KernelOptions
) -> list[Array]:
    """Run the code object's function `kernel` as `run_kernel` does."""
    request = {
        "code_object": code_object,
        "buffers": [item.tobytes() for item in buffers],
        "grid": options.grid,
        "block": options.block,
    }
    key = (arch, options.environment)
    child = _children.get(key)
    if child is None:
        child = _children[key] = _Child(*key)
    outcome, value = child.ask(request)
    if outcome != "ok":
        _children.pop(key).close()
        raise KernelFault(value)
    return [
        np.frombuffer(data, dtype=item.dtype).reshape(item.shape).copy()
        for data, item in zip(value, buffers, strict=True)
    ]
