"""vLLM's kernels around paged caches: writing keys and values, packing, slots of tokens."""

from __future__ import annotations

import torch
from kernel_case import EXACT, kernel_case, multiplied, quantized, rounded
from kernel_trial import Trial

_OPS = "vllm.v1.attention.ops"
_HALVES = (torch.float16, torch.bfloat16)
_FLOATS = (torch.float32, *_HALVES)
_SLOTS = torch.tensor([17, 3, -1, 40, 22, 63, 0], dtype=torch.int64)
"""Where each token goes in 4 pages of 16; -1 is padding."""


def _scatter(cache: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """A copy of a cache [pages, page, heads, …] with the values in their slots."""
    result = cache.clone()
    for slot, value in zip(_SLOTS.tolist(), values, strict=True):
        if slot >= 0:
            result[slot // 16, slot % 16] = value
    return result


@kernel_case(
    f"{_OPS}.triton_reshape_and_cache_flash:triton_reshape_and_cache_flash",
    kernels="reshape_and_cache_kernel_flash",
    shapes="7 tokens, 3 heads of 80, pages of 16",
    dtypes=_FLOATS,
    is_fast=True,
)
def reshape_and_cache(trial: Trial) -> None:
    key, value = trial.randn(7, 3, 80), trial.randn(7, 3, 80)
    caches = trial.randn(2, 4, 16, 3, 80)
    keys, values = trial.put(caches[0]), trial.put(caches[1])
    one = trial.put(torch.ones(1))
    trial.wrapper(
        trial.put(key), trial.put(value), keys, values, trial.put(_SLOTS), "auto", one, one
    )
    trial.check("keys", keys, _scatter(caches[0], key), EXACT)
    trial.check("values", values, _scatter(caches[1], value), EXACT)


@kernel_case(
    f"{_OPS}.triton_reshape_and_cache_flash:triton_reshape_and_cache_flash",
    kernels="reshape_and_cache_kernel_flash",
    shapes="7 tokens, 3 heads of 80, pages of 16 in the chip's fp8, scaled",
    dtypes=_FLOATS,
)
def reshape_and_cache_fp8(trial: Trial) -> None:
    key, value = trial.randn(7, 3, 80), trial.randn(7, 3, 80)
    cache = torch.zeros(4, 16, 3, 80, dtype=torch.uint8)
    keys, values = trial.put(cache), trial.put(cache)
    scales = torch.tensor([0.5, 0.25])  # powers of two: the quotients are exact
    trial.wrapper(
        trial.put(key),
        trial.put(value),
        keys,
        values,
        trial.put(_SLOTS),
        "fp8",
        trial.put(scales[:1]),
        trial.put(scales[1:]),
    )
    for name, result, source, scale in (
        ("keys", keys, key, scales[0]),
        ("values", values, value, scales[1]),
    ):
        expected = (source.float() / scale).to(trial.fp8)
        trial.check(name, result.cpu(), _scatter(cache, expected.view(torch.uint8)), EXACT)


@kernel_case(
    f"{_OPS}.triton_reshape_and_cache_flash:triton_reshape_and_cache_flash_diffkv",
    kernels="reshape_and_cache_kernel_flash_diffkv",
    shapes="7 tokens, 3 heads of 80 and 48, pages of 16",
    dtypes=_FLOATS,
)
def reshape_and_cache_diffkv(trial: Trial) -> None:
    key, value, cache = trial.randn(7, 3, 80), trial.randn(7, 3, 48), trial.randn(4, 16, 3, 128)
    result, one = trial.put(cache), trial.put(torch.ones(1))
    trial.wrapper(trial.put(key), trial.put(value), result, trial.put(_SLOTS), "auto", one, one)
    trial.check("cache", result, _scatter(cache, torch.cat((key, value), dim=2)), EXACT)


def _cache_per_token_head(trial: Trial, dtype: torch.dtype, highest: float) -> None:
    key, value = trial.randn(7, 3, 80), trial.randn(7, 3, 80)
    cache = torch.zeros(4, 16, 3, 80).to(dtype)
    scales = torch.zeros(4, 16, 3)
    keys, values, key_scales, value_scales = (trial.put(t) for t in (cache, cache, scales, scales))
    modes = trial.load("vllm.v1.kv_cache_interface").KVQuantMode
    mode = modes.INT8_PER_TOKEN_HEAD if dtype == torch.int8 else modes.FP8_PER_TOKEN_HEAD
    trial.wrapper(
        trial.put(key),
        trial.put(value),
        keys,
        values,
        key_scales,
        value_scales,
        trial.put(_SLOTS),
        mode,
    )
    for name, result, result_scales, source in (
        ("keys", keys, key_scales, key.double()),
        ("values", values, value_scales, value.double()),
    ):
        scale = source.abs().amax(dim=2) / highest
        quotients = source / scale.unsqueeze(2)
        if dtype == torch.int8:
            quotients = quotients.sign() * (quotients.abs() + 0.5).floor()
        expected = _scatter(cache.float(), quotients.float().to(dtype).float())
        trial.check(name, result.float(), expected, quantized(dtype))
        tolerance = rounded(torch.float32, "a quotient in f32", ulps=2)
        trial.check(f"scales of {name}", result_scales, _scatter(scales, scale), tolerance)


@kernel_case(
    f"{_OPS}.triton_reshape_and_cache_flash:triton_reshape_and_cache_flash_per_token_head_quant",
    kernels="_reshape_cache_per_token_head",
    shapes="7 tokens, 3 heads of 80, pages of 16 in int8, a scale for each token and head",
    dtypes=_FLOATS,
)
def reshape_and_cache_int8(trial: Trial) -> None:
    _cache_per_token_head(trial, torch.int8, 127)


@kernel_case(
    f"{_OPS}.triton_reshape_and_cache_flash:triton_reshape_and_cache_flash_per_token_head_quant",
    kernels="_reshape_cache_per_token_head",
    shapes="7 tokens, 3 heads of 80, pages of 16 in the chip's fp8, a scale for each",
    dtypes=(torch.bfloat16,),
)
def reshape_and_cache_fp8_per_head(trial: Trial) -> None:
    highest = float(trial.module._PER_TOKEN_HEAD_QUANT_PARAMS[trial.fp8][0])
    _cache_per_token_head(trial, trial.fp8, highest)


@kernel_case(
    f"{_OPS}.int4_per_token_head:reshape_and_cache_int4",
    kernels=("_hadamard_mma_kernel", "_reshape_cache_int4_kernel"),
    shapes="7 tokens, 3 heads of 64 in int4, rotated",
    dtypes=_HALVES,
)
def reshape_and_cache_int4(trial: Trial) -> None:
    key, value = trial.randn(7, 3, 64), trial.randn(7, 3, 64)
    cache, scales = torch.zeros(4, 16, 3, 32, dtype=torch.uint8), torch.zeros(4, 16, 3)
    keys, values, key_scales, value_scales = (trial.put(t) for t in (cache, cache, scales, scales))
    trial.wrapper(
        trial.put(key),
        trial.put(value),
        keys,
        values,
        trial.put(_SLOTS),
        k_scale_cache=key_scales,
        v_scale_cache=value_scales,
    )
    signs = trial.module._get_rht_signs(64, 0, torch.device("cpu"))
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) < 64:
        matrix = torch.cat((torch.cat((matrix, matrix), 1), torch.cat((matrix, -matrix), 1)))
    for name, result, result_scales, source in (
        ("keys", keys, key_scales, key),
        ("values", values, value_scales, value),
    ):
        # The rotation is done in bf16 and its result rounded to it.
        signed = (source.float() * signs).bfloat16().double()
        wanted = (signed @ matrix).bfloat16().to(trial.dtype).double()
        packed, words = result.cpu(), result_scales.cpu().view(torch.int32)
        codes = torch.stack((packed & 15, packed >> 4), dim=4).flatten(3)
        scale = (words & -16).view(torch.float32).double()
        restored = (codes.double() - (words & 15).unsqueeze(3)) * scale.unsqueeze(3)
        step = (wanted.amax(dim=2) - wanted.amin(dim=2)).max().item() / 15
        trial.check(
            name,
            restored,
            _scatter(torch.zeros(4, 16, 3, 64, dtype=torch.float64), wanted),
            # Half a step each for the value and the zero point.
            rounded(torch.bfloat16, "int4 steps", sums=step / wanted.abs().max().item() * 2**7),
        )


@kernel_case(
    f"{_OPS}.int4_per_token_head:fast_hadamard_transform",
    kernels="_hadamard_mma_kernel",
    shapes="37 rows of 64",
    dtypes=_HALVES,
)
def hadamard(trial: Trial) -> None:
    x = trial.randn(37, 64)
    index = torch.arange(64)
    common = index[:, None] & index[None, :]
    ones = sum((common >> bit) & 1 for bit in range(6))
    assert isinstance(ones, torch.Tensor)
    expected = x.double() @ (1.0 - 2 * (ones % 2)).double()
    trial.check("out", trial.wrapper(trial.put(x)), expected, multiplied(trial.dtype))


@kernel_case(
    f"{_OPS}.metadata:compute_token_to_req_indices",
    kernels="_token_request_mapping_kernel",
    shapes="600 tokens of 9 requests, 590 of them used",
    dtypes=(torch.int32,),
)
def token_requests(trial: Trial) -> None:
    counts = torch.tensor([3, 0, 200, 1, 90, 256, 0, 0, 40])
    starts = torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0))).to(torch.int32)
    out = trial.wrapper(trial.put(starts), trial.empty(700, dtype=torch.int32), 590, 600)
    expected = torch.zeros(600, dtype=torch.int64)
    expected[:590] = torch.arange(9).repeat_interleave(counts)
    trial.check("requests", out, expected, EXACT)


@kernel_case(
    f"{_OPS}.dcp:correct_attn_out",
    kernels="kernel",
    shapes="11 tokens, 3 heads of 64, 4 ranks; one without keys",
    dtypes=_FLOATS,
)
def correct_attention_of_ranks(trial: Trial) -> None:
    out, lse = trial.randn(11, 3, 64), trial.randn(4, 11, 3, dtype=torch.float32, scale=3)
    lse[1, :, 2] = -torch.inf
    result, merged = trial.wrapper(trial.put(out), trial.put(lse), 2, None)
    total = torch.logsumexp(lse.double(), dim=0)
    share = torch.exp(lse[2].double() - total)
    tolerance = rounded(torch.float32, "exp and log of f32", ulps=4, sums=2)
    trial.check("lse", merged, total, tolerance)
    expected = out.double() * share.unsqueeze(2)
    # The sums are below 8 in size, so the exponent is off by up to their last place of 2**-21 each.
    ulps = 10 if trial.dtype == torch.float32 else 4
    tolerance = rounded(trial.dtype, "exp of a difference of two f32 sums", ulps=ulps)
    trial.check("out", result, expected, tolerance)


@kernel_case(
    f"{_OPS}.common:pack_seq_triton",
    kernels="kernel",
    shapes="3 sequences of 70, 1, 33 tokens of 3 x 50",
    dtypes=_FLOATS,
)
def pack_sequences(trial: Trial) -> None:
    lengths = torch.tensor([70, 1, 33], dtype=torch.int32)
    x = trial.randn(104, 3, 50)
    packed = trial.wrapper(trial.put(x), trial.put(lengths))
    expected = torch.full((3, 70, 3, 50), -torch.inf, dtype=trial.dtype)
    for row, part in zip(expected, (x[:70], x[70:71], x[71:]), strict=True):
        row[: len(part)] = part
    trial.check("packed", packed, expected, EXACT)


@kernel_case(
    f"{_OPS}.common:unpack_seq_triton",
    kernels="kernel",
    shapes="3 sequences of 70, 1, 33 tokens of 3 x 50",
    dtypes=_FLOATS,
)
def unpack_sequences(trial: Trial) -> None:
    x = trial.randn(3, 70, 3, 50)
    out = trial.wrapper(trial.put(x), trial.put(torch.tensor([70, 1, 33], dtype=torch.int32)))
    trial.check("tokens", out, torch.cat((x[0], x[1, :1], x[2, :33])), EXACT)
