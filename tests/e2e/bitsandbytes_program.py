"""Calls entry points of bitsandbytes' HIP library on device memory and compares them with numpy.

    python bitsandbytes_program.py libbitsandbytes_rocm72.so

Prints one JSON object a line: the entry point and its largest error. References are computed in
double from what the functions are documented to do; nothing of bitsandbytes' own Python is used.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635]
NF4 += [-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725]
NF4 += [0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941]
NF4 += [0.7229568362236023, 1.0]
FP4_HALF = [0.0, 0.0625 / 12, 8 / 12, 1.0, 4 / 12, 6 / 12, 2 / 12, 3 / 12]
CODES = {"nf4": np.array(NF4), "fp4": np.array(FP4_HALF + [-value for value in FP4_HALF])}
BLOCK, COUNT = 64, 1000
LR, BETA1, BETA2, BETA3, ALPHA, EPS, STEP = 1e-2, 0.9, 0.99, 0.9999, 5.0, 1e-8, 3


class Device:
    """hipMalloc memory for torch tensors, and calls into the library."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.hip = ctypes.CDLL("libamdhip64.so")

    def put(self, tensor: torch.Tensor) -> ctypes.c_void_p:
        size, pointer = ctypes.c_size_t(tensor.nbytes), ctypes.c_void_p()
        assert self.hip.hipMalloc(ctypes.byref(pointer), size) == 0
        data = ctypes.c_void_p(tensor.data_ptr())
        assert self.hip.hipMemcpy(pointer, data, size, 1) == 0
        return pointer

    def get(self, pointer: ctypes.c_void_p, like: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(like)
        data, size = ctypes.c_void_p(out.data_ptr()), ctypes.c_size_t(out.nbytes)
        assert self.hip.hipMemcpy(data, pointer, size, 2) == 0
        return out

    def call(self, name: str, *arguments: Any) -> list[torch.Tensor]:
        """Give tensors on the device, call, and take them all back."""
        tensors = [item for item in arguments if isinstance(item, torch.Tensor)]
        pointers = [self.put(tensor) for tensor in tensors]
        rest = iter(pointers)
        sent = [next(rest) if isinstance(item, torch.Tensor) else item for item in arguments]
        getattr(self.library, name)(*sent)
        assert self.hip.hipDeviceSynchronize() == 0, name
        back = [self.get(at, like) for at, like in zip(pointers, tensors, strict=True)]
        for pointer in pointers:
            self.hip.hipFree(pointer)
        return back


def ints(*values: int) -> list[ctypes.c_int]:
    return [ctypes.c_int(value) for value in values]


def floats(*values: float) -> list[ctypes.c_float]:
    return [ctypes.c_float(value) for value in values]


def report(name: str, error: float) -> None:
    print(json.dumps({"entry": name, "error": float(error)}), flush=True)


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def to_double(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float64]]:
    return tensor.to(torch.float64).numpy()


def block_maxima(values: Any, size: int) -> Any:
    return np.array([np.abs(values[i : i + size]).max() for i in range(0, len(values), size)])


def quantization_excess(values: Any, maxima: Any, size: int, codes: Any, taken: Any) -> float:
    """How much farther from the scaled values the codes taken are than the nearest ones."""
    scaled = values / np.repeat(maxima, size)[: len(values)]
    nearest = np.abs(scaled[:, None] - codes[None, :]).min(axis=1)
    return float((np.abs(scaled - codes[taken]) - nearest).max())


def unpack(packed: torch.Tensor) -> Any:
    pairs = packed.numpy()
    return np.stack([pairs >> 4, pairs & 15], axis=1).reshape(-1)


def relative(got: torch.Tensor, expected: Any) -> float:
    difference = np.abs(to_double(got).reshape(-1) - expected.reshape(-1)).max()
    return float(difference / np.abs(expected).max())


def check_8bit_blocks(device: Device) -> None:
    codes = torch.linspace(-1, 1, 256)
    blocks = (COUNT + 255) // 256
    for name, dtype in DTYPES.items():
        values = random(COUNT, dtype=dtype)
        maxima, out = torch.zeros(blocks), torch.zeros(COUNT, dtype=torch.uint8)
        back = device.call(
            f"cquantize_blockwise_{name}", codes, values, maxima, out, *ints(256, COUNT)
        )
        expected = block_maxima(to_double(values), 256)
        excess = quantization_excess(
            to_double(values), expected, 256, to_double(codes), back[3].numpy()
        )
        report(f"cquantize_blockwise_{name}", max(excess, relative(back[2], expected)))
        out = torch.zeros(COUNT, dtype=dtype)
        again = device.call(
            f"cdequantize_blockwise_{name}", codes, back[3], back[2], out, *ints(256, COUNT), None
        )
        wanted = to_double(codes)[back[3].numpy()] * np.repeat(to_double(back[2]), 256)[:COUNT]
        report(f"cdequantize_blockwise_{name}", relative(again[3], wanted))


def check_4bit_blocks(device: Device) -> None:
    for name, dtype in DTYPES.items():
        for kind, codes in CODES.items():
            values = random(COUNT, dtype=dtype, seed=1)
            maxima = torch.zeros((COUNT + BLOCK - 1) // BLOCK)
            out = torch.zeros((COUNT + 1) // 2, dtype=torch.uint8)
            entry = f"cquantize_blockwise_{name}_{kind}"
            back = device.call(entry, None, values, maxima, out, *ints(BLOCK, COUNT))
            taken = unpack(back[2])[:COUNT]
            expected = block_maxima(to_double(values), BLOCK)
            excess = quantization_excess(to_double(values), expected, BLOCK, codes, taken)
            report(entry, max(excess, relative(back[1], expected)))
            out = torch.zeros(COUNT, dtype=dtype)
            entry = f"cdequantize_blockwise_{name}_{kind}"
            again = device.call(entry, None, back[2], back[1], out, *ints(BLOCK, COUNT), None)
            wanted = codes[taken] * np.repeat(to_double(back[1]), BLOCK)[:COUNT]
            report(entry, relative(again[2], wanted))


def check_4bit_products(device: Device) -> None:
    """A vector (and, with the newer entry, a few rows) times a matrix in NF4."""
    columns, depth = 64, 256
    codes = CODES["nf4"]
    picked = np.random.default_rng(2).integers(0, 16, columns * depth)
    packed = torch.from_numpy((picked[0::2] << 4 | picked[1::2]).astype(np.uint8))
    maxima = random(columns * depth // BLOCK, seed=3).abs()
    weights = (codes[picked] * np.repeat(to_double(maxima), BLOCK)).reshape(columns, depth)
    table = torch.tensor(NF4)
    for name, dtype in DTYPES.items():
        vector = random(1, depth, dtype=dtype, seed=4)
        out = torch.zeros(1, columns, dtype=dtype)
        entry = f"cgemm_4bit_inference_naive_{name}"
        sizes = ints(columns, 1, depth)
        strides = ints(columns, (depth + 1) // 2, columns, BLOCK)
        back = device.call(entry, *sizes, vector, packed, maxima, table, out, *strides, None)
        report(entry, relative(back[4], to_double(vector) @ weights.T))
        rows = random(4, depth, dtype=dtype, seed=5)
        out = torch.zeros(4, columns, dtype=dtype)
        shape = ints(4, columns, depth, BLOCK, 2)
        entry = f"cgemm_4bit_{name}"
        back = device.call(entry, rows, packed, maxima, None, None, None, out, None, *shape, None)
        report(entry, relative(back[3], to_double(rows) @ weights.T))


def check_int8(device: Device) -> None:
    rows, columns = 8, 256
    values = random(rows, columns, dtype=torch.float16, seed=6)
    out, maxima = torch.zeros(rows, columns, dtype=torch.int8), torch.zeros(rows)
    back = device.call(
        "cint8_vector_quant", values, out, maxima, ctypes.c_float(0), *ints(rows, columns), None
    )
    expected = np.abs(to_double(values)).max(axis=1)
    scaled = to_double(values) * 127 / expected[:, None]
    excess = np.abs(back[1].numpy() - scaled).max() - 0.5
    report("cint8_vector_quant", max(float(excess), relative(back[2], expected)))
    generator = np.random.default_rng(7)
    sums = torch.from_numpy(generator.integers(-(2**18), 2**18, (rows, columns)))
    row, column = random(rows, seed=8).abs(), random(columns, seed=9).abs()
    bias = random(columns, dtype=torch.float16, seed=10)
    out16 = torch.zeros(rows, columns, dtype=torch.float16)
    back = device.call(
        "cdequant_mm_int32_fp16",
        sums.to(torch.int32),
        row,
        column,
        out16,
        bias,
        *ints(rows, columns),
        None,
    )
    wanted = sums.numpy() * np.outer(to_double(row), to_double(column)) / 127**2 + to_double(bias)
    report("cdequant_mm_int32_fp16", relative(back[3], wanted))


def advance(name: str, g: Any, p: Any, s1: Any, s2: Any) -> Any:
    """A step of an optimizer without weight decay: the new parameters."""
    correction1, correction2 = 1 - BETA1**STEP, np.sqrt(1 - BETA2**STEP)
    if name == "adam":
        m, v = BETA1 * s1 + (1 - BETA1) * g, BETA2 * s2 + (1 - BETA2) * g * g
        return p - LR * (m / correction1) / (np.sqrt(v) / correction2 + EPS)
    if name == "ademamix":
        fast, slow = BETA1 * s1[0] + (1 - BETA1) * g, BETA3 * s1[1] + (1 - BETA3) * g
        v = BETA2 * s2 + (1 - BETA2) * g * g
        return p - LR * (fast / correction1 + ALPHA * slow) / (np.sqrt(v) / correction2 + EPS)
    if name == "momentum":
        return p - LR * (BETA1 * s1 + g)
    if name == "lion":
        return p - LR * np.sign(BETA1 * s1 + (1 - BETA1) * g)
    if name == "rmsprop":
        return p - LR * g / (np.sqrt(BETA1 * s1 + (1 - BETA1) * g * g) + EPS)
    return p - LR * g / (np.sqrt(s1 + g * g) + EPS)  # adagrad


def check_optimizers(device: Device) -> None:
    entries = {
        name: {kind: f"c{name}32bit_grad_{kind}" for kind in DTYPES}
        for name in ("adam", "ademamix", "lion")
    }
    for name in ("momentum", "rmsprop", "adagrad"):
        entries[name] = {kind: f"c{name}32bit_grad_{kind[2:]}" for kind in ("fp32", "fp16")}
    for name, kinds in entries.items():
        two = 2 if name == "ademamix" else 1
        for kind, entry in kinds.items():
            g, p = (random(COUNT, dtype=DTYPES[kind], seed=seed) for seed in (11, 12))
            s1, s2 = random(two, COUNT, seed=13), random(COUNT, seed=14).abs() + 0.1
            if name in ("rmsprop", "adagrad"):
                s1 = s1.abs() + 0.1
            hyper = floats(0, 0, BETA1, BETA2, BETA3, ALPHA, EPS, 0)
            last = (*ints(STEP), *floats(LR, 1), ctypes.c_bool(False), *ints(COUNT))
            back = device.call(entry, g, p, s1, s2, None, *hyper, *last)
            state = to_double(s1) if two == 2 else to_double(s1)[0]
            wanted = advance(name, to_double(g), to_double(p), state, to_double(s2))
            report(entry, relative(back[1], wanted))


def check_8bit_optimizers(device: Device) -> None:
    """Old states are read from their codes, so the new parameters are known."""
    count, block = 1024, 256
    signed, unsigned = torch.linspace(-1, 1, 256), torch.linspace(0, 1, 256)
    for name in ("adam", "ademamix", "momentum", "rmsprop", "lion", "adagrad"):
        two = 2 if name == "ademamix" else 1
        first = unsigned if name in ("rmsprop", "adagrad") else signed
        for kind, dtype in DTYPES.items():
            g, p = (random(count, dtype=dtype, seed=seed) for seed in (15, 16))
            generator = np.random.default_rng(17)
            q1 = torch.from_numpy(generator.integers(20, 256, (two, count)).astype(np.uint8))
            q2 = torch.from_numpy(generator.integers(20, 256, count).astype(np.uint8))
            m1 = random(two, count // block, seed=18).abs() + 0.1
            m2 = random(count // block, seed=19).abs() + 0.1
            old1 = to_double(first)[q1.numpy()] * np.repeat(to_double(m1), block, axis=1)
            old2 = to_double(unsigned)[q2.numpy()] * np.repeat(to_double(m2), block)
            hyper = floats(BETA1, BETA2, BETA3, ALPHA, EPS)
            entry = f"c{name}_8bit_blockwise_grad_{kind}"
            states = (*ints(STEP), *floats(LR), first, unsigned, m1, m2)
            last = (*floats(0, 1), ctypes.c_bool(False), *ints(count))
            back = device.call(entry, p, g, q1, q2, *hyper, *states, *last)
            state = old1 if two == 2 else old1[0]
            wanted = advance(name, to_double(g), to_double(p), state, old2)
            report(entry, relative(back[0], wanted))


def check_fills(device: Device) -> None:
    values = torch.zeros(COUNT)
    for entry, value, expected in (
        ("cfill_fp32", ctypes.c_float(2.5), np.full(COUNT, 2.5)),
        ("carange_fp32", ctypes.c_float(0), np.arange(COUNT)),
    ):
        back = device.call(entry, values, None, value, ctypes.c_long(COUNT))
        report(entry, relative(back[0], expected))
    a, b = random(COUNT, seed=20), random(COUNT, seed=21)
    back = device.call("c_mul_fp32", a, b, ctypes.c_float(0), ctypes.c_long(COUNT))
    report("c_mul_fp32", relative(back[0], to_double(a) * to_double(b)))


def check_refusal(device: Device) -> None:
    """A product that hipBLASLt would make is refused by name, and the process lives."""
    a = torch.zeros(64, 64, dtype=torch.int8)
    sizes = [ctypes.c_int(64)] * 3
    out = torch.zeros(64, 64, dtype=torch.int32)
    device.library.get_context.restype = ctypes.c_void_p
    context = ctypes.c_void_p(device.library.get_context())
    pointers = [device.put(item) for item in (a, a, out)]
    status = device.library.cigemmlt_32(context, *sizes, *pointers, None, *sizes, None)
    print(json.dumps({"entry": "cigemmlt_32", "status": status}))


def main() -> None:
    device = Device(sys.argv[1])
    checks: tuple[Callable[[Device], None], ...] = (
        check_8bit_blocks, check_4bit_blocks, check_4bit_products, check_int8, check_optimizers,
        check_8bit_optimizers, check_fills, check_refusal,
    )  # fmt: skip
    for check in checks:
        check(device)


if __name__ == "__main__":
    main()
