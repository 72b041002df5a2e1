"""AITER's hand-written code objects, launched as its C++ wrappers launch them.

The wrappers (aiter_meta/csrc/py_itfs_cu/asm_*.cu in the wheel) fill a struct in which every
argument stands in a slot of 16 bytes, and start workgroups of 256 work-items.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from collections.abc import Sequence

import torch
from kernel_library import cache_folder, get_library

__all__ = ["bf16_gemm", "layer_norm", "paged_attention", "topk_softmax"]

_SLOT_BYTES = 16
_BLOCK = 256
_BUFFER, _BUFFER_SIZE, _END = 1, 2, 3  # HIP_LAUNCH_PARAM_*


@functools.cache
def _hip() -> ctypes.CDLL:
    return ctypes.CDLL(os.environ["TRITON_LIBHIP_PATH"])


def _call(name: str, *arguments: object) -> None:
    status = getattr(_hip(), name)(*arguments)
    if status:
        raise RuntimeError(f"{name}: HIP error {status}")


@functools.cache
def _function(arch: str, file: str, symbol: str) -> ctypes.c_void_p:
    wheel = cache_folder("inputs") / f"amd_aiter-{get_library('amd_aiter').version}"
    data = (wheel / "aiter_meta" / "hsa" / arch / file).read_bytes()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _call("hipModuleLoadData", ctypes.byref(module), data)
    _call("hipModuleGetFunction", ctypes.byref(function), module, symbol.encode())
    return function


def _pack(argument: torch.Tensor | float | None) -> bytes:
    if argument is None:
        data = b""
    elif isinstance(argument, torch.Tensor):
        data = struct.pack("<Q", argument.data_ptr())
    else:
        data = struct.pack("<f" if isinstance(argument, float) else "<I", argument)
    return data.ljust(_SLOT_BYTES, b"\0")


def _launch(
    function: ctypes.c_void_p,
    grid: tuple[int, int, int],
    arguments: Sequence[torch.Tensor | float | None],
) -> None:
    data = b"".join(map(_pack, arguments))
    segment, size = ctypes.create_string_buffer(data, len(data)), ctypes.c_size_t(len(data))
    extra = (ctypes.c_void_p * 5)(
        _BUFFER, ctypes.addressof(segment), _BUFFER_SIZE, ctypes.addressof(size), _END
    )
    shape = [ctypes.c_uint(number) for number in (*grid, _BLOCK, 1, 1, 0)]
    _call("hipModuleLaunchKernel", function, *shape, None, None, extra)


def topk_softmax(
    arch: str, weights: torch.Tensor, indices: torch.Tensor, gating: torch.Tensor
) -> None:
    """As `topk_softmax_asm` for 128 experts and 8 of them, with renormalised weights."""
    tokens, experts = gating.shape
    function = _function(
        arch, "topksoftmax/topksoftmax_4x128x8.co", "_ZN5aiter19topksoftmax_4x128x8E"
    )
    numbers = (tokens, experts, weights.shape[1], 1, 4 * weights.stride(0))
    _launch(function, ((tokens + 3) // 4, 1, 1), (indices, weights, gating, *numbers))


def layer_norm(
    arch: str,
    x: torch.Tensor,
    residual_in: torch.Tensor,
    *,
    out: torch.Tensor,
    residual_out: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    epsilon: float,
) -> None:
    """As `layernorm2d_with_add_asm`."""
    function = _function(arch, "layer_norm.co", "layer_norm_kernel_func")
    rows, columns = x.shape
    arguments = (
        out,
        x,
        weight,
        bias,
        epsilon,
        rows,
        columns,
        residual_out,
        residual_in,
        None,
        None,
    )
    _launch(function, (rows // 2, 1, 1), arguments)


def bf16_gemm(
    arch: str, out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, splits: int = 1
) -> None:
    """As `gemm_a16w16_asm` with tiles of 32 by 64: out = a b^T in f32."""
    function = _function(
        arch,
        "bf16gemm/bf16gemm_outf32_tn_32x64_pf3.co",
        "_ZN5aiter28bf16gemm_outf32_tn_32x64_pf3E",
    )
    (m, k), n = a.shape, b.shape[0]
    strides = (0, 0, 4 * n, 0, 2 * k, 0, 2 * k, 0)
    arguments = (out, None, a, b, 1.0, 0.0, *strides, m, n, k, splits)
    _launch(function, ((n + 63) // 64, (m + 31) // 32, splits), arguments)


def paged_attention(
    arch: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    out: torch.Tensor,
    block_tables: torch.Tensor,
    context_lengths: torch.Tensor,
) -> None:
    """As `pa_fwd` for bf16, blocks of 16 tokens and 8 query heads a key head."""
    function = _function(
        arch, "pa/pa_bf16_noquant_gqa8_1tg_4w.co", "_ZN5aiter27pa_bf16_noquant_gqa8_1tg_4wE"
    )
    scale = 1.4426950408889634 / q.shape[2] ** 0.5
    heads = k.shape[1]
    numbers = (block_tables.shape[1], heads, 2 * q.stride(0), 2 * k.stride(0), 2 * k.stride(1))
    arguments = (out, q, k, v, block_tables, context_lengths, None, None, scale, *numbers, 8, None)
    _launch(function, (heads, q.shape[0], 1), arguments)
