"""Compiles the bench's kernels for gfx942 and writes a captured bundle and held-out ones of each.

Held-out bundles have other sizes: what is right only for the captured ones must fail on them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bench_kernels
import numpy as np
import triton
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from asmevo.capture.bundle import RegionContent, write_bundle
from asmevo.capture.manifest import CaptureFacts, DispatchRecord, PointerReference, RegionKind
from asmevo.codeobject.code_object import CodeObject

__all__ = ["BENCH_KERNELS", "BenchKernel", "Bundles", "write_bundles"]

ARCH = "gfx942"
_BASE, _STEP = 0x7E0000000000, 1 << 20
_DIVISIBLE = [["tt.divisibility", 16]]
_NARROW = [*_DIVISIBLE, ["tt.pointer_range", 32]]  # buffer instructions instead of global ones

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Arguments in order, pointers first, and the grid."""

    arrays: Sequence[Array]
    scalars: Sequence[int | float]
    grid: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchKernel:
    """A kernel, how it is compiled, and the sizes that it is launched with."""

    name: str
    signature: Mapping[str, str]
    constants: Mapping[str, int]
    make: Callable[..., Launch]
    captured: tuple[int, ...]
    held_out: tuple[tuple[int, ...], ...]
    warps: int = 4
    is_narrow: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundles:
    """The bundle that candidates are searched with, and those for the gate behind it."""

    name: str
    captured: Path
    held_out: tuple[Path, ...]


def _random(*shape: int, dtype: type = np.float32, seed: int = 1) -> Array:
    values = np.random.default_rng(seed).standard_normal(shape)
    return values.astype(dtype)


def _bf16(*shape: int, seed: int = 1) -> Array:
    bits = _random(*shape, seed=seed).view(np.uint32) + np.uint32(0x8000)
    return (bits >> np.uint32(16)).astype(np.uint16)


def _ceil(value: int, unit: int) -> int:
    return -(-value // unit)


def _add(count: int) -> Launch:
    arrays = [_random(count), _random(count, seed=2), np.zeros(count, np.float32)]
    return Launch(arrays=arrays, scalars=[count], grid=(_ceil(count, 512), 1))


def _softmax(rows: int, columns: int) -> Launch:
    stride = columns + 7
    arrays = [_random(rows, stride), np.zeros((rows, stride), np.float32)]
    return Launch(arrays=arrays, scalars=[rows, columns, stride], grid=(2, 1))


def _rms_norm(rows: int, columns: int) -> Launch:
    stride = columns + 4
    arrays = [_bf16(rows, stride), _bf16(columns, seed=2), np.zeros((rows, stride), np.uint16)]
    return Launch(arrays=arrays, scalars=[columns, stride, 1e-5], grid=(rows, 1))


def _layer_norm(rows: int, columns: int) -> Launch:
    stride = columns + 5
    arrays = [_random(rows, stride), _random(columns, seed=2), _random(columns, seed=3)]
    arrays += [np.zeros((rows, stride), np.float32), np.zeros(rows, np.float32)]
    return Launch(arrays=arrays, scalars=[columns, stride, 1e-5], grid=(rows, 1))


def _silu(rows: int, width: int) -> Launch:
    arrays = [_random(rows, 2 * width, dtype=np.float16), np.zeros((rows, width), np.float16)]
    return Launch(arrays=arrays, scalars=[width], grid=(rows, _ceil(width, 256)))


def _matmul(m: int, n: int, k: int) -> Launch:
    arrays = [_bf16(m, k), _bf16(k, n, seed=2), np.zeros((m, n), np.uint16)]
    return Launch(arrays=arrays, scalars=[m, n, k], grid=(_ceil(m, 32), _ceil(n, 32)))


def _transpose(rows: int, columns: int) -> Launch:
    arrays = [_random(rows, columns), np.zeros((columns, rows), np.float32)]
    return Launch(
        arrays=arrays, scalars=[rows, columns], grid=(_ceil(rows, 32), _ceil(columns, 32))
    )


def _cumulative_sum(rows: int, columns: int) -> Launch:
    values = np.random.default_rng(1).integers(-99, 99, (rows, columns), dtype=np.int32)
    return Launch(arrays=[values, np.zeros_like(values)], scalars=[columns], grid=(rows, 1))


def _argmax(rows: int, columns: int) -> Launch:
    arrays = [_random(rows, columns), np.zeros(rows, np.int32)]
    return Launch(arrays=arrays, scalars=[columns], grid=(rows, 1))


def _histogram(count: int) -> Launch:
    values = np.random.default_rng(1).integers(0, 255, count, dtype=np.int32)
    arrays = [values, np.arange(16, dtype=np.int32)]
    return Launch(arrays=arrays, scalars=[count], grid=(_ceil(count, 512), 1))


def _scatter_add(count: int) -> Launch:
    index = np.random.default_rng(1).integers(0, 24, count, dtype=np.int32)
    arrays = [index, np.abs(_random(count)), np.full(24, 100, np.float32)]
    return Launch(arrays=arrays, scalars=[count], grid=(_ceil(count, 512), 1))


def _dequantize(rows: int, columns: int) -> Launch:
    values = np.random.default_rng(1).integers(-128, 127, (rows, columns), dtype=np.int8)
    arrays = [values, _random(rows, dtype=np.float16), np.zeros((rows, columns), np.float16)]
    return Launch(arrays=arrays, scalars=[columns], grid=(rows, 1))


def _embedding(tokens: int, width: int) -> Launch:
    ids = np.random.default_rng(1).integers(0, 12, tokens, dtype=np.int32)
    ids[-1] = 11
    arrays = [ids, _bf16(10, width), np.zeros((tokens, width), np.uint16)]
    return Launch(arrays=arrays, scalars=[width, 10], grid=(tokens, 1))


def _rotary(tokens: int, half: int) -> Launch:
    angles = _random(tokens, half, seed=2)
    arrays = [_random(tokens, 2 * half, dtype=np.float16), np.cos(angles), np.sin(angles)]
    arrays.append(np.zeros((tokens, 2 * half), np.float16))
    return Launch(arrays=arrays, scalars=[half], grid=(tokens, 1))


def _attention(length: int) -> Launch:
    arrays = [_random(length, 32, dtype=np.float16, seed=seed) for seed in (1, 2, 3)]
    arrays.append(np.zeros((length, 32), np.float16))
    return Launch(arrays=arrays, scalars=[length, 0.177], grid=(_ceil(length, 32), 1))


def _dropout(count: int) -> Launch:
    arrays = [_random(count), np.zeros(count, np.float32)]
    return Launch(arrays=arrays, scalars=[count, 1234, 0.75], grid=(_ceil(count, 512), 1))


def _signature(text: str) -> dict[str, str]:
    return dict(entry.split(":") for entry in text.split())


BENCH_KERNELS = (
    BenchKernel(
        name="add",
        signature=_signature("x:*fp32 y:*fp32 out:*fp32 count:i32"),
        constants={"block": 512},
        make=_add,
        captured=(1500,),
        held_out=((1201,), (2048,)),
    ),
    BenchKernel(
        name="softmax",
        signature=_signature("x:*fp32 out:*fp32 rows:i32 columns:i32 stride:i32"),
        constants={"block": 512},
        make=_softmax,
        captured=(3, 500),
        held_out=((5, 333), (2, 512)),
    ),
    BenchKernel(
        name="rms_norm",
        signature=_signature("x:*bf16 weight:*bf16 out:*bf16 columns:i32 stride:i32 epsilon:fp32"),
        constants={"block": 256},
        make=_rms_norm,
        captured=(3, 700),
        held_out=((2, 513), (4, 256)),
    ),
    BenchKernel(
        name="layer_norm",
        signature=_signature(
            "x:*fp32 weight:*fp32 bias:*fp32 out:*fp32 means:*fp32 "
            "columns:i32 stride:i32 epsilon:fp32"
        ),
        constants={"block": 512},
        make=_layer_norm,
        captured=(3, 400),
        held_out=((2, 511), (4, 37)),
        is_narrow=False,
    ),
    BenchKernel(
        name="silu_and_mul",
        signature=_signature("x:*fp16 out:*fp16 width:i32"),
        constants={"block": 256},
        make=_silu,
        captured=(2, 400),
        held_out=((3, 257), (1, 512)),
    ),
    BenchKernel(
        name="matmul",
        signature=_signature("a:*bf16 b:*bf16 out:*bf16 m:i32 n:i32 k:i32"),
        constants={"bm": 32, "bn": 32, "bk": 32},
        make=_matmul,
        captured=(50, 40, 72),
        held_out=((33, 61, 95), (64, 32, 32)),
    ),
    BenchKernel(
        name="transpose",
        signature=_signature("x:*fp32 out:*fp32 rows:i32 columns:i32"),
        constants={"block": 32},
        make=_transpose,
        captured=(40, 50),
        held_out=((33, 64), (61, 31)),
        is_narrow=False,
    ),
    BenchKernel(
        name="cumulative_sum",
        signature=_signature("x:*i32 out:*i32 columns:i32"),
        constants={"block": 512},
        make=_cumulative_sum,
        captured=(2, 450),
        held_out=((3, 511), (1, 65)),
    ),
    BenchKernel(
        name="argmax",
        signature=_signature("x:*fp32 out:*i32 columns:i32"),
        constants={"block": 512},
        make=_argmax,
        captured=(4, 450),
        held_out=((3, 301), (5, 512)),
    ),
    BenchKernel(
        name="histogram",
        signature=_signature("x:*i32 out:*i32 count:i32"),
        constants={"block": 512},
        make=_histogram,
        captured=(900,),
        held_out=((601,), (1024,)),
    ),
    BenchKernel(
        name="scatter_add",
        signature=_signature("index:*i32 x:*fp32 out:*fp32 count:i32"),
        constants={"block": 512},
        make=_scatter_add,
        captured=(900,),
        held_out=((601,), (1024,)),
        is_narrow=False,
    ),
    BenchKernel(
        name="dequantize",
        signature=_signature("packed:*i8 scale:*fp16 out:*fp16 columns:i32"),
        constants={"block": 512},
        make=_dequantize,
        captured=(3, 450),
        held_out=((2, 511), (4, 130)),
    ),
    BenchKernel(
        name="embedding",
        signature=_signature("ids:*i32 table:*bf16 out:*bf16 width:i32 vocabulary:i32"),
        constants={"block": 256},
        make=_embedding,
        captured=(4, 200),
        held_out=((3, 255), (5, 130)),
        is_narrow=False,
    ),
    BenchKernel(
        name="rotary",
        signature=_signature("x:*fp16 cosine:*fp32 sine:*fp32 out:*fp16 half:i32"),
        constants={"block": 128},
        make=_rotary,
        captured=(3, 100),
        held_out=((2, 127), (4, 64)),
        warps=2,
    ),
    BenchKernel(
        name="attention",
        signature=_signature("q:*fp16 k:*fp16 v:*fp16 out:*fp16 length:i32 scale:fp32"),
        constants={"block": 32, "width": 32},
        make=_attention,
        captured=(50,),
        held_out=((75,), (32,)),
        warps=2,
    ),
    BenchKernel(
        name="dropout",
        signature=_signature("x:*fp32 out:*fp32 count:i32 seed:i32 keep:fp32"),
        constants={"block": 512},
        make=_dropout,
        captured=(900,),
        held_out=((700,), (1024,)),
    ),
)


def write_bundles(kernel: BenchKernel, folder: Path) -> Bundles:
    """Compile one kernel and write its bundles."""
    code_object, dynamic_lds = _compile(kernel)
    paths = []
    for index, sizes in enumerate((kernel.captured, *kernel.held_out)):
        path = folder / f"{kernel.name}-{index}.aeb"
        _write(path, kernel, kernel.make(*sizes), code_object, dynamic_lds)
        paths.append(path)
    return Bundles(name=kernel.name, captured=paths[0], held_out=tuple(paths[1:]))


def _compile(kernel: BenchKernel) -> tuple[bytes, int]:
    """The code object, and the LDS that a launch must ask for."""
    function = getattr(bench_kernels, f"{kernel.name}_kernel")
    names = list(function.arg_names)
    signature = {name: kernel.signature.get(name, "constexpr") for name in names}
    pointers = _NARROW if kernel.is_narrow else _DIVISIBLE
    compiled = triton.compile(
        ASTSource(
            fn=function,
            signature=signature,
            constexprs={(names.index(name),): value for name, value in kernel.constants.items()},
            attrs={
                (names.index(name),): pointers
                for name, kind in kernel.signature.items()
                if kind.startswith("*")
            },
        ),
        target=GPUTarget("hip", ARCH, 64),
        options={"num_warps": kernel.warps},
    )
    return bytes(compiled.asm["hsaco"]), int(compiled.metadata.shared)


def _write(
    path: Path, bench: BenchKernel, launch: Launch, code_object: bytes, dynamic_lds: int
) -> None:
    (kernel,) = CodeObject.read(code_object).kernels
    explicit = [argument for argument in kernel.arguments if not argument.is_hidden]
    kernarg = bytearray(explicit[-1].offset + explicit[-1].size)
    regions = []
    for index, array in enumerate(launch.arrays):
        address = _BASE + index * _STEP + 16 * index
        struct.pack_into("<Q", kernarg, explicit[index].offset, address)
        reference = PointerReference(kernarg_offset=explicit[index].offset, region_offset=0)
        regions.append(_region(address, array.tobytes(), reference))
    scalars = explicit[len(launch.arrays) :]
    for argument, value in zip(scalars, launch.scalars, strict=False):
        struct.pack_into(
            "<f" if isinstance(value, float) else "<i", kernarg, argument.offset, value
        )
    write_bundle(
        path,
        dispatch=DispatchRecord(
            kernel=kernel.name,
            arch=ARCH,
            launch_function="hipModuleLaunchKernel",
            grid=(*launch.grid, 1),
            block=(64 * bench.warps, 1, 1),
            dynamic_lds_bytes=dynamic_lds,
            kernarg_bytes=len(kernarg),
            stream=0,
        ),
        capture=CaptureFacts(
            tool_version="0.1.0",
            pid=1,
            command=("bench_oracle",),
            time_utc="2026-11-29T12:00:00Z",
            ordinal=0,
            pause_ms=0.0,
        ),
        code_object=code_object,
        kernarg=bytes(kernarg),
        regions=regions,
    )


def _region(address: int, data: bytes, reference: PointerReference) -> RegionContent:
    return RegionContent(
        address=address,
        size_bytes=len(data),
        kind=RegionKind.DEVICE,
        pointers=(reference,),
        before=lambda: [data],
        after=None,
    )
