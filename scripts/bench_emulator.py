"""Speed of the emulated device, in wave instructions and MACs per CPU second and core.

Every workload is an assembled gfx942 kernel whose loop holds one kind of work; the matmul is
Triton's. CPU seconds are those of the process, so another load on the machine hardly shows.

    scripts/bench_emulator [--only NAME] [--mode NAME] [--threads N] [--library FILE] [--json]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from asmevo import native
from asmevo.codeobject.toolchain import assemble, link

__all__ = ["main"]

_ARCH = "gfx942"
_BUFFER_BYTES = 1 << 22

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
_LDS = """
  ds_write_b32 v1, v16
  ds_write_b128 v2, v[32:35]
  s_waitcnt lgkmcnt(0)
  ds_read_b32 v17, v1
  ds_read_b128 v[36:39], v2
  ds_read2_b32 v[20:21], v1 offset1:64
  s_waitcnt lgkmcnt(0)
"""
_MEMORY = """
  global_load_dwordx4 v[32:35], v2, s[6:7]
  global_load_dword v17, v1, s[6:7]
  s_waitcnt vmcnt(0)
  global_store_dwordx4 v2, v[32:35], s[4:5]
  global_store_dword v1, v17, s[4:5]
"""
_HALVES = _registers(16, 4) + "\n  v_cvt_pkrtz_f16_f32 v16, v3, v3\n" + _registers(32, 64)
_PACK = "\n".join(f"  v_cvt_pkrtz_f16_f32 v{i}, v3, v3" for i in range(16, 24))


def _workloads() -> Iterator[Workload]:
    scalar = ("s_add_u32 s10, s11, s8", "s_xor_b32 s11, s10, s8", "s_lshl_b32 s12, s10, 3")
    integer = (
        "v_add_u32_e32 v{i}, v{j}, v1",
        "v_and_b32_e32 v{j}, 0xff, v{i}",
        "v_lshl_add_u32 v{i}, v{j}, 2, v1",
    )
    eight = _registers(16, 8)
    yield Workload(name="SALU", body=_repeat(scalar, 24))
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
    large = "\n".join(
        f"  v_mfma_f32_32x32x8_f16 v[{d}:{d + 15}], v[16:17], v[18:19], v[{d}:{d + 15}]"
        for d in (32, 48, 64, 80)
    )
    init = _registers(32, 64) + "\n" + _PACK
    yield Workload(name="MFMA 32x32x8 f16", init=init, body=large, rounds=400, macs=4 * 32 * 32 * 8)
    small = "\n".join(
        f"  v_mfma_f32_16x16x16_f16 v[{d}:{d + 3}], v[16:17], v[18:19], v[{d}:{d + 3}]"
        for d in (32, 36, 40, 44)
    )
    yield Workload(
        name="MFMA 16x16x16 f16", init=init, body=small, rounds=600, macs=4 * 16 * 16 * 16
    )
    single = "\n".join(
        f"  v_mfma_f32_32x32x2_f32 v[{d}:{d + 15}], v16, v17, v[{d}:{d + 15}]"
        for d in (32, 48, 64, 80)
    )
    yield Workload(
        name="MFMA 32x32x2 f32",
        init=_registers(16, 96),
        body=single,
        rounds=800,
        macs=4 * 32 * 32 * 2,
    )


class Device:
    """The emulated device's library, in this process."""

    def __init__(self, library: str) -> None:
        self.hip = ctypes.CDLL(library or str(native.emulator_library()))
        self.hip.asmevo_emulator_last_report.restype = ctypes.c_char_p

    def option(self, name: str, value: str) -> bool:
        """False when the device has no such option."""
        return bool(self.hip.asmevo_emulator_set_option(name.encode(), value.encode()) == 0)

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.hip, name)(*arguments)
        if status != 0:
            raise SystemExit(f"{name}: error {status}")

    def function(self, image: bytes, name: str) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("hipModuleLoadData", ctypes.byref(module), image)
        self.call("hipModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def buffer(self, data: bytes) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        self.call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(len(data)))
        self.call("hipMemcpy", pointer, data, ctypes.c_size_t(len(data)), 1)
        return pointer

    def launch(
        self,
        function: ctypes.c_void_p,
        grid: tuple[int, int],
        arguments: list[Any],
        *,
        dynamic_lds: int = 0,
    ) -> tuple[float, dict[str, Any]]:
        """Workgroups of 256 work-items: CPU seconds, and the device's report."""
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        shape = [ctypes.c_uint(value) for value in (*grid, 1, 256, 1, 1, dynamic_lds)]
        start = time.process_time()
        self.call("hipModuleLaunchKernel", function, *shape, None, pointers, None)
        self.call("hipDeviceSynchronize")
        seconds = time.process_time() - start
        return seconds, json.loads(self.hip.asmevo_emulator_last_report())


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """Settings of a column."""

    name: str
    timing: str
    checks: str
    mfma: str = "exact"


_MODES = (
    Mode(name="plain", timing="0", checks="none"),
    Mode(name="timing", timing="1", checks="none"),
    Mode(name="timing, checks", timing="1", checks="all"),
    Mode(name="fast MFMA", timing="0", checks="none", mfma="fast"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measurement."""

    workload: str
    mode: str
    value: float
    unit: str


def _set_mode(device: Device, mode: Mode) -> bool:
    known = device.option("timing", mode.timing)
    known &= device.option("checks", mode.checks)
    has_fast = device.option("mfma", mode.mfma)
    return known and (has_fast or mode.mfma == "exact")


def _measure(device: Device, work: Workload, mode: Mode) -> Figure:
    text = _TEMPLATE.format(init=work.init, body=work.body, rounds=work.rounds)
    function = device.function(link(assemble(text, _ARCH)), "k")
    arguments = [device.buffer(bytes(_BUFFER_BYTES)) for _ in range(2)]
    device.launch(function, (2, 1), arguments)
    best = 0.0
    for _ in range(3):
        seconds, report = device.launch(function, (4, 1), arguments)
        amount = work.macs * work.rounds * report["waves"] if work.macs else 0
        best = max(best, (amount or report["wave_instructions"]) / seconds)
    unit = "GMAC/s" if work.macs else "M instructions/s"
    return Figure(
        workload=work.name, mode=mode.name, value=best / (1e9 if work.macs else 1e6), unit=unit
    )


def _compile_matmul() -> tuple[bytes, int] | None:
    """Code object and bytes of dynamic LDS; None without Triton."""
    try:
        import triton
        from bench_emulator_matmul import matmul_kernel
        from triton.backends.compiler import GPUTarget
    except ImportError:
        return None
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "size": "i32"}
    blocks = {"rows": 128, "columns": 128, "depth": 64}
    source = triton.compiler.ASTSource(
        fn=matmul_kernel,
        signature=signature | dict.fromkeys(blocks, "constexpr"),
        constexprs={(4 + place,): value for place, value in enumerate(blocks.values())},
        attrs={(n,): [["tt.divisibility", 16], ["tt.pointer_range", 32]] for n in range(3)}
        | {(3,): [["tt.divisibility", 16]]},
    )
    compiled = triton.compile(source, target=GPUTarget("hip", _ARCH, 64))
    return bytes(compiled.asm["hsaco"]), int(compiled.metadata.shared)


def _measure_matmul(device: Device, size: int, mode: Mode) -> Figure | None:
    compiled = _compile_matmul()
    if compiled is None:
        print("matmul: needs triton", file=sys.stderr)
        return None
    function = device.function(compiled[0], "matmul_kernel")
    data = bytes(bytearray(b"\x00\x3c\x00\x38" * (size * size // 2)))
    a, b, c = (device.buffer(data) for _ in range(3))
    scratch = ctypes.c_void_p(0)  # Triton's two hidden pointers
    arguments = [a, b, c, ctypes.c_int(size), scratch, scratch]
    grid = (size // 128, size // 128)
    seconds, _ = device.launch(function, grid, arguments, dynamic_lds=compiled[1])
    return Figure(
        workload=f"matmul {size} fp16", mode=mode.name, value=seconds, unit="core-seconds"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="workloads whose name holds this text")
    parser.add_argument("--mode", default="", help="modes whose name holds this text")
    parser.add_argument("--threads", default="1", help="host threads of the device")
    parser.add_argument("--library", default="", help="another build's libamdhip64.so")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = Device(options.library)
    device.option("threads", options.threads)
    figures: list[Figure] = []
    for mode in _MODES:
        if options.mode not in mode.name or not _set_mode(device, mode):
            continue
        for work in _workloads():
            if options.only in work.name and (mode.mfma == "exact" or work.macs):
                figures.append(_measure(device, work, mode))
                _show(figures[-1], as_json=options.json)
        if options.only in "matmul":
            figure = _measure_matmul(device, 1024, mode)
            if figure:
                figures.append(figure)
                _show(figure, as_json=options.json)
    if options.json:
        json.dump([asdict(figure) for figure in figures], sys.stdout, indent=1)


def _show(figure: Figure, *, as_json: bool) -> None:
    if not as_json:
        print(
            f"{figure.mode:16} {figure.workload:22} {figure.value:8.2f} {figure.unit}", flush=True
        )


if __name__ == "__main__":
    main()
