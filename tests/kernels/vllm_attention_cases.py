"""vLLM's attention kernels: paged, prefix, decode, and what merges partial results."""

from __future__ import annotations

import torch
from attention_reference import PagedBatch, attention, attention_lse, make_paged_batch
from kernel_case import Tolerance, kernel_case, multiplied, rounded
from kernel_trial import Trial

_OPS = "vllm.v1.attention.ops"
_HALVES = (torch.float16, torch.bfloat16)
_FLOATS = (torch.float32, *_HALVES)
_MIXED = ((5, 37), (19, 19), (1, 50))
"""Queries and keys: a chunk after a prefix, a whole prompt, a decode step."""


def _attention_tolerance(dtype: torch.dtype) -> Tolerance:
    # The shares are rounded to the dtype before they meet the values.
    return multiplied(dtype, ulps=1, sums=1)


def _split_layout(batch: PagedBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Caches as [pages, heads, size / x, page, x] and [pages, heads, size, page]."""
    per_16_bytes = 16 // batch.key_cache.element_size()
    pages, page, heads, size = batch.key_cache.shape
    shape = (pages, page, heads, size // per_16_bytes, per_16_bytes)
    keys = batch.key_cache.reshape(shape).permute(0, 2, 3, 1, 4)
    return keys.contiguous(), batch.value_cache.permute(0, 2, 3, 1).contiguous()


@kernel_case(
    f"{_OPS}.triton_merge_attn_states:merge_attn_states",
    kernels="merge_attn_states_kernel",
    shapes="11 tokens, 3 heads of 80",
    dtypes=_FLOATS,
    is_fast=True,
)
def merge_attn_states(trial: Trial) -> None:
    prefix, suffix = trial.randn(11, 3, 80), trial.randn(11, 3, 80)
    lse = trial.randn(2, 3, 11, dtype=torch.float32, scale=4)
    out = trial.empty(11, 3, 80)
    out_lse = trial.empty(3, 11, dtype=torch.float32)
    trial.wrapper(
        output=out,
        output_lse=out_lse,
        prefix_output=trial.put(prefix),
        prefix_lse=trial.put(lse[0]),
        suffix_output=trial.put(suffix),
        suffix_lse=trial.put(lse[1]),
    )
    share = torch.softmax(lse.double(), dim=0).transpose(1, 2).unsqueeze(-1)
    expected = (torch.stack((prefix, suffix)).double() * share).sum(dim=0)
    trial.check("out", out, expected, rounded(trial.dtype, "sum of two in f32, rounded", sums=1))
    trial.check(
        "lse",
        out_lse,
        torch.logsumexp(lse.double(), dim=0),
        rounded(torch.float32, "exp and log of f32", ulps=4, sums=2),
    )


def _prefix_prefill(trial: Trial, *, cache: str = "auto", slopes: torch.Tensor | None) -> None:
    cache_dtype = trial.fp8 if cache == "fp8" else None
    batch = make_paged_batch(
        trial, _MIXED, heads=(4, 2), sizes=(64, 64), page=16, cache_dtype=cache_dtype, spare=0.0
    )
    new_keys = torch.cat(
        [key[len(key) - len(q) :] for q, key in zip(batch.queries, batch.keys, strict=True)]
    )
    new_values = torch.cat(
        [v[len(v) - len(q) :] for q, v in zip(batch.queries, batch.values, strict=True)]
    )
    key_cache, value_cache = _split_layout(batch)
    out = trial.empty(*batch.query.shape)
    one = trial.put(torch.ones(1))
    trial.wrapper(
        trial.put(batch.query),
        trial.put(new_keys.to(trial.dtype)),
        trial.put(new_values.to(trial.dtype)),
        out,
        cache,
        trial.put(key_cache),
        trial.put(value_cache),
        trial.put(batch.block_table),
        trial.put(batch.query_starts),
        trial.put(batch.lengths),
        50,
        19,
        one,
        one,
        alibi_slopes=None if slopes is None else trial.put(slopes),
    )
    trial.check(
        "out", out, batch.attend(scale=64**-0.5, slopes=slopes), _attention_tolerance(trial.dtype)
    )


@kernel_case(
    f"{_OPS}.prefix_prefill:context_attention_fwd",
    kernels="_fwd_kernel",
    shapes="3 sequences of 5/37, 19/19, 1/50 queries/keys, 4 heads over 2, size 64, pages of 16",
    dtypes=_FLOATS,
)
def prefix_prefill(trial: Trial) -> None:
    _prefix_prefill(trial, slopes=None)


@kernel_case(
    f"{_OPS}.prefix_prefill:context_attention_fwd",
    kernels="_fwd_kernel",
    shapes="as above, cache in the chip's fp8",
    dtypes=(torch.bfloat16,),
)
def prefix_prefill_fp8_cache(trial: Trial) -> None:
    _prefix_prefill(trial, cache="fp8", slopes=None)


@kernel_case(
    f"{_OPS}.prefix_prefill:context_attention_fwd",
    kernels="_fwd_kernel_alibi",
    shapes="as above, with ALiBi slopes",
    dtypes=_FLOATS,
)
def prefix_prefill_alibi(trial: Trial) -> None:
    _prefix_prefill(trial, slopes=torch.tensor([0.5, 0.25, 0.125, 0.0625]))


@kernel_case(
    f"{_OPS}.chunked_prefill_paged_decode:chunked_prefill_paged_decode",
    kernels=("_fwd_kernel", "kernel_paged_attention_2d"),
    shapes="3 sequences of 5/37, 1/33, 1/50 queries/keys, 6 heads over 2, size 96, pages of 16",
    dtypes=_HALVES,
)
def chunked_prefill_paged_decode(trial: Trial) -> None:
    batch = make_paged_batch(
        trial, ((5, 37), (1, 33), (1, 50)), heads=(6, 2), sizes=(96, 96), page=16, spare=0.0
    )
    tails = [slice(len(k) - len(q), None) for q, k in zip(batch.queries, batch.keys, strict=True)]
    key_cache, value_cache = _split_layout(batch)
    out = trial.empty(*batch.query.shape)
    one = trial.put(torch.ones(1))
    trial.wrapper(
        query=trial.put(batch.query),
        key=trial.put(torch.cat([k[t] for k, t in zip(batch.keys, tails, strict=True)])),
        value=trial.put(torch.cat([v[t] for v, t in zip(batch.values, tails, strict=True)])),
        output=out,
        kv_cache_dtype="auto",
        key_cache=trial.put(key_cache),
        value_cache=trial.put(value_cache),
        block_table=trial.put(batch.block_table),
        query_start_loc=trial.put(batch.query_starts),
        seq_lens=trial.put(batch.lengths),
        max_seq_len=50,
        max_query_len=5,
        k_scale=one,
        v_scale=one,
    )
    trial.check("out", out, batch.attend(scale=96**-0.5), _attention_tolerance(trial.dtype))


@kernel_case(
    f"{_OPS}.triton_unified_attention:unified_attention",
    kernels="kernel_unified_attention",
    shapes="3 sequences of 5/37, 19/19, 1/50, 6 heads over 2, size 80, pages of 16",
    dtypes=_FLOATS,
    is_fast=True,
)
def unified_attention(trial: Trial) -> None:
    _unified_attention(
        trial, make_paged_batch(trial, _MIXED, heads=(6, 2), sizes=(80, 80), page=16)
    )


@kernel_case(
    f"{_OPS}.triton_unified_attention:unified_attention",
    kernels="kernel_unified_attention",
    shapes="as above, window of 11, soft cap, sinks",
    dtypes=(torch.bfloat16,),
)
def unified_attention_window(trial: Trial) -> None:
    batch = make_paged_batch(trial, _MIXED, heads=(6, 2), sizes=(80, 80), page=16)
    _unified_attention(trial, batch, window=11, softcap=5.0, sinks=trial.randn(6))


@kernel_case(
    f"{_OPS}.triton_unified_attention:unified_attention",
    kernels=("kernel_unified_attention", "reduce_segments"),
    shapes="2 decode steps of 37 and 90 keys in 4 segments, 6 heads over 2, size 80, pages of 16",
    dtypes=_FLOATS,
)
def unified_attention_split(trial: Trial) -> None:
    batch = make_paged_batch(trial, ((1, 37), (1, 90)), heads=(6, 2), sizes=(80, 80), page=16)
    _unified_attention(trial, batch, segments=4)


def _unified_attention(
    trial: Trial,
    batch: PagedBatch,
    *,
    window: int = 0,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    segments: int | None = None,
) -> None:
    query = batch.query
    out = trial.empty(*query.shape[:2], batch.value_cache.shape[-1])
    size = batch.value_cache.shape[-1]
    partial = {}
    if segments is not None:
        padded = 1 << (size - 1).bit_length()
        shape = (*query.shape[:2], segments)
        partial = {
            "softmax_segm_output": trial.empty(*shape, padded, dtype=torch.float32),
            "softmax_segm_max": trial.empty(*shape, dtype=torch.float32),
            "softmax_segm_expsum": trial.empty(*shape, dtype=torch.float32),
        }
    trial.wrapper(
        q=trial.put(query),
        k=trial.put(batch.key_cache),
        v=trial.put(batch.value_cache),
        out=out,
        cu_seqlens_q=trial.put(batch.query_starts),
        max_seqlen_q=max(len(q) for q in batch.queries),
        seqused_k=trial.put(batch.lengths),
        max_seqlen_k=int(batch.lengths.max()),
        softmax_scale=0.125,
        causal=True,
        window_size=(window - 1, 0) if window else (-1, -1),
        block_table=trial.put(batch.block_table),
        softcap=softcap,
        q_descale=None,
        k_descale=None,
        v_descale=None,
        sinks=None if sinks is None else trial.put(sinks),
        seq_threshold_3D=None if segments is None else 16,
        num_par_softmax_segments=segments,
        **partial,
    )
    expected = batch.attend(scale=0.125, window=window, softcap=softcap, sinks=sinks)
    trial.check("out", out, expected, _attention_tolerance(trial.dtype))


def _unified_attention_diffkv(trial: Trial, batch: PagedBatch, segments: int | None) -> None:
    query = batch.query
    out = trial.empty(*query.shape[:2], batch.value_cache.shape[-1])
    partial = {}
    if segments is not None:
        shape = (*query.shape[:2], segments)
        partial = {
            "softmax_segm_output": trial.empty(*shape, 64, dtype=torch.float32),
            "softmax_segm_max": trial.empty(*shape, dtype=torch.float32),
            "softmax_segm_expsum": trial.empty(*shape, dtype=torch.float32),
        }
    trial.wrapper(
        q=trial.put(query),
        k=trial.put(batch.key_cache),
        v=trial.put(batch.value_cache),
        out=out,
        cu_seqlens_q=trial.put(batch.query_starts),
        seqused_k=trial.put(batch.lengths),
        softmax_scale=0.125,
        causal=True,
        window_size=(-1, -1),
        block_table=trial.put(batch.block_table),
        softcap=0.0,
        max_seqlen_q=max(len(q) for q in batch.queries),
        seq_threshold_3D=None if segments is None else 16,
        num_par_softmax_segments=segments,
        **partial,
    )
    trial.check("out", out, batch.attend(scale=0.125), _attention_tolerance(trial.dtype))


@kernel_case(
    f"{_OPS}.triton_unified_attention_diffkv:unified_attention_diffkv",
    kernels="kernel_unified_attention_diffkv",
    shapes="3 sequences of 5/37, 19/19, 1/50, 4 heads over 2, sizes 96 and 48, pages of 16",
    dtypes=_HALVES,
)
def unified_attention_diffkv(trial: Trial) -> None:
    batch = make_paged_batch(trial, _MIXED, heads=(4, 2), sizes=(96, 48), page=16)
    _unified_attention_diffkv(trial, batch, None)


@kernel_case(
    f"{_OPS}.triton_unified_attention_diffkv:unified_attention_diffkv",
    kernels=("kernel_unified_attention_diffkv", "kernel_reduce_segments_diffkv"),
    shapes="2 decode steps of 37 and 90 keys in 4 segments, 4 heads over 2, sizes 96 and 48",
    dtypes=_HALVES,
)
def unified_attention_diffkv_split(trial: Trial) -> None:
    batch = make_paged_batch(trial, ((1, 37), (1, 90)), heads=(4, 2), sizes=(96, 48), page=16)
    _unified_attention_diffkv(trial, batch, 4)


def _decode_attention(
    trial: Trial, *, heads: tuple[int, int], sizes: tuple[int, int], is_mla: bool = False
) -> None:
    splits, lengths = 4, (37, 90, 3)
    batch = make_paged_batch(
        trial, [(1, length) for length in lengths], heads=heads, sizes=sizes, page=8, spare=0.0
    )
    values, value_cache = batch.values, batch.value_cache
    if is_mla:  # the values are the first part of the keys
        value_cache = batch.key_cache[..., : sizes[1]]
        values = tuple(key[..., : sizes[1]] for key in batch.keys)
    out = trial.empty(len(lengths), heads[0], sizes[1])
    lse = trial.empty(len(lengths), heads[0])
    key_cache = trial.put(batch.key_cache)
    trial.wrapper(
        trial.put(batch.query),
        key_cache,
        key_cache[..., : sizes[1]] if is_mla else trial.put(value_cache),
        out,
        lse,
        trial.put(batch.block_table),
        trial.put(batch.lengths),
        trial.empty(len(lengths), heads[0], splits, sizes[1] + 1, dtype=torch.float32),
        splits,
        0.125,
        page_size=8,
        is_mla=is_mla,
    )
    expected = torch.cat(
        [
            attention(q, k, v, scale=0.125)
            for q, k, v in zip(batch.queries, batch.keys, values, strict=True)
        ]
    )
    tolerance = _attention_tolerance(trial.dtype)
    trial.check("out", out, expected, tolerance)
    expected_lse = torch.cat(
        [attention_lse(q, k, scale=0.125) for q, k in zip(batch.queries, batch.keys, strict=True)]
    )
    trial.check("lse", lse, expected_lse, tolerance)


@kernel_case(
    f"{_OPS}.triton_decode_attention:decode_attention_fwd",
    kernels=("_fwd_kernel_stage1", "_fwd_kernel_stage2"),
    shapes="3 sequences of 37, 90, 3 keys in 4 splits, 3 heads of 80, pages of 8",
    dtypes=_FLOATS,
)
def decode_attention(trial: Trial) -> None:
    _decode_attention(trial, heads=(3, 3), sizes=(80, 80))


@kernel_case(
    f"{_OPS}.triton_decode_attention:decode_attention_fwd",
    kernels=("_fwd_grouped_kernel_stage1", "_fwd_kernel_stage2"),
    shapes="3 sequences of 37, 90, 3 keys in 4 splits, 6 heads over 2, size 80, pages of 8",
    dtypes=_FLOATS,
)
def decode_attention_grouped(trial: Trial) -> None:
    _decode_attention(trial, heads=(6, 2), sizes=(80, 80))


@kernel_case(
    f"{_OPS}.triton_decode_attention:decode_attention_fwd",
    kernels=("_fwd_grouped_kernel_stage1", "_fwd_kernel_stage2"),
    shapes="MLA: as above, 16 heads over 1, latent 128 and rotary 32",
    dtypes=_HALVES,
)
def decode_attention_mla(trial: Trial) -> None:
    _decode_attention(trial, heads=(16, 1), sizes=(160, 128), is_mla=True)


@kernel_case(
    f"{_OPS}.triton_prefill_attention:context_attention_fwd",
    kernels="_fwd_kernel",
    shapes="2 prompts of 37 and 70 tokens, 4 heads over 2, size 80",
    dtypes=_FLOATS,
)
def prefill_attention(trial: Trial) -> None:
    lengths = (37, 70)
    query, key, value = (trial.randn(107, heads, 80) for heads in (4, 2, 2))
    out = trial.empty(107, 4, 80)
    trial.wrapper(
        *(trial.put(tensor) for tensor in (query, key, value)),
        out,
        trial.put(torch.tensor([0, 37], dtype=torch.int32)),
        trial.put(torch.tensor(lengths, dtype=torch.int32)),
        70,
    )
    parts = (slice(0, 37), slice(37, 107))
    expected = torch.cat([attention(query[p], key[p], value[p], scale=80**-0.5) for p in parts])
    trial.check("out", out, expected, _attention_tolerance(trial.dtype))
