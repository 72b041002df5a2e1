"""Small kernels for the emulated device: assembled from a body, run in a process of their own.

A failed launch leaves the device unusable, as on a GPU, so every run has its own process. The
kernel gets s[0:1] = kernarg segment with two pointers: the output buffer and the input buffer.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KERNARG_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a launch did."""

    status: int
    ok: bool
    report: str
    output: bytes
    wave_instructions: int
    modelled_cycles: int
    profile: list[list[int]]
    mfma: str
    findings: list[dict[str, Any]]

    def words(self) -> list[int]:
        """The output as unsigned 32-bit words."""
        return [
            int.from_bytes(self.output[at : at + 4], "little")
            for at in range(0, len(self.output), 4)
        ]


def kernel_text(
    body: str,
    *,
    target: str = "gfx942",
    vgprs: int = 32,
    agprs: int = 0,
    lds: int = 0,
    directives: str = "",
) -> str:
    """A whole assembly file around `body`, which must end the program itself."""
    total = (vgprs + 3) // 4 * 4 + agprs
    return f"""
.amdgcn_target "amdgcn-amd-amdhsa--{target}"
.text
.globl k
.p2align 8
.type k,@function
k:
{body}
.Lend:
.size k, .Lend-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_kernarg_size {KERNARG_BYTES}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr {total}
  .amdhsa_next_free_sgpr 64
  .amdhsa_accum_offset {(vgprs + 3) // 4 * 4}
  .amdhsa_group_segment_fixed_size {lds}
  {directives}
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--{target}
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: {KERNARG_BYTES}
    .kernarg_segment_align: 16
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 64
    .vgpr_count: {vgprs}
    .agpr_count: {agprs}
    .max_flat_workgroup_size: 1024
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}
...
.end_amdgpu_metadata
"""


def run_kernel(
    body: str,
    *,
    target: str = "gfx942",
    vgprs: int = 32,
    agprs: int = 0,
    lds: int = 0,
    directives: str = "",
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (64, 1, 1),
    data: bytes = bytes(1024),
    output_bytes: int = 1024,
    cleared_bytes: int | None = None,
    options: Mapping[str, str] | None = None,
) -> Outcome:
    """Assemble, load and launch `body` once.

    `cleared_bytes` of the output are set to zero before it, all unless told otherwise.
    """
    from asmevo.codeobject import toolchain

    text = kernel_text(
        body, target=target, vgprs=vgprs, agprs=agprs, lds=lds, directives=directives
    )
    return run_image(
        toolchain.link(toolchain.assemble(text, target)),
        target=target,
        grid=grid,
        block=block,
        data=data,
        output_bytes=output_bytes,
        cleared_bytes=cleared_bytes,
        options=options,
    )


def run_image(
    image: bytes,
    *,
    kernel: str = "k",
    target: str = "gfx942",
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (64, 1, 1),
    data: bytes = bytes(1024),
    output_bytes: int = 1024,
    number: int | None = None,
    cleared_bytes: int | None = None,
    options: Mapping[str, str] | None = None,
) -> Outcome:
    """Load a code object and launch a kernel of (output, input) or (output, input, number).

    The check `waits` is made unless `options` say otherwise.
    """
    request = {
        "image": image.hex(),
        "kernel": kernel,
        "grid": grid,
        "block": block,
        "data": data.hex(),
        "output_bytes": output_bytes,
        "number": number,
        "cleared_bytes": output_bytes if cleared_bytes is None else cleared_bytes,
        "options": [{"checks": "waits"} | dict(options or {})],
    }
    return _launch(request, target)[0]


def run_with_seeds(
    body: str,
    seeds: Sequence[int],
    *,
    lds: int = 0,
    block: tuple[int, int, int] = (64, 1, 1),
    data: bytes = bytes(1024),
) -> list[Outcome]:
    """Assemble and load `body` once, launch it with each seed and without checks."""
    from asmevo.codeobject import toolchain

    image = toolchain.link(toolchain.assemble(kernel_text(body, lds=lds), "gfx942"))
    request = {
        "image": image.hex(),
        "kernel": "k",
        "grid": (1, 1, 1),
        "block": block,
        "data": data.hex(),
        "output_bytes": 1024,
        "number": None,
        "cleared_bytes": 1024,
        "options": [{"checks": "none", "seed": str(seed)} for seed in seeds],
    }
    return _launch(request, "gfx942")


def _launch(request: dict[str, Any], target: str) -> list[Outcome]:
    """One launch for each set of options, in a process of their own."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__))],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": "", "ASMEVO_EMULATOR_ARCH": target, **_library_path()},
    )
    assert done.returncode == 0, done.stderr
    return [
        Outcome(
            status=answer["status"],
            ok=answer["report"]["ok"],
            report=answer["report"]["report"],
            output=bytes.fromhex(answer["output"]),
            wave_instructions=answer["report"]["wave_instructions"],
            modelled_cycles=answer["report"]["modelled_cycles"],
            profile=answer["report"]["profile"],
            mfma=answer["report"]["mfma"],
            findings=answer["report"]["findings"],
        )
        for answer in json.loads(done.stdout)
    ]


def _library_path() -> dict[str, str]:
    from asmevo.native import emulator_library

    return {"EMULATOR": str(emulator_library())}


def _child() -> None:
    import os

    request = json.load(sys.stdin)
    hip = ctypes.CDLL(os.environ["EMULATOR"])
    hip.asmevo_emulator_last_report.restype = ctypes.c_char_p
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    image = bytes.fromhex(request["image"])
    status = hip.hipModuleLoadData(ctypes.byref(module), image)
    assert status == 0, f"hipModuleLoadData: {status}"
    name = request["kernel"].encode()
    assert hip.hipModuleGetFunction(ctypes.byref(function), module, name) == 0
    answers = []
    for options in request["options"]:
        for option, value in options.items():
            status = hip.asmevo_emulator_set_option(option.encode(), value.encode())
            assert status == 0, option
        answers.append(_run_once(hip, function, request))
    json.dump(answers, sys.stdout)


def _run_once(hip: Any, function: ctypes.c_void_p, request: dict[str, Any]) -> dict[str, Any]:
    size, data = request["output_bytes"], bytes.fromhex(request["data"])
    out, source = ctypes.c_void_p(), ctypes.c_void_p()
    assert hip.hipMalloc(ctypes.byref(out), ctypes.c_size_t(size)) == 0
    assert hip.hipMalloc(ctypes.byref(source), ctypes.c_size_t(len(data))) == 0
    assert hip.hipMemset(out, 0, ctypes.c_size_t(request["cleared_bytes"])) == 0
    assert hip.hipMemcpy(source, data, ctypes.c_size_t(len(data)), 1) == 0
    values = [out, source]
    if request["number"] is not None:
        values.append(ctypes.c_void_p(request["number"]))
    arguments = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    shape = [ctypes.c_uint(value) for value in (*request["grid"], *request["block"])]
    status = hip.hipModuleLaunchKernel(function, *shape, ctypes.c_uint(0), None, arguments, None)
    result = ctypes.create_string_buffer(size)
    if status == 0:
        assert hip.hipMemcpy(result, out, ctypes.c_size_t(size), 2) == 0
    report = json.loads(hip.asmevo_emulator_last_report())
    return {"status": status, "report": report, "output": result.raw.hex()}


if __name__ == "__main__":
    _child()
