"""SGLang's Triton attention backend: prefill, extend, decode, merge."""

from __future__ import annotations

import torch
from kernel_case import EXACT, Tolerance, kernel_case, rounded
from kernel_trial import Trial
from sglang_attention_reference import attend, causal_mask

_HALVES = (torch.bfloat16, torch.float16)
_ATTENTION = "sglang.kernels.ops.attention"


def _attended(dtype: torch.dtype) -> Tolerance:
    return rounded(dtype, "weights and output rounded once each", sums=1)


_LSE = rounded(torch.float32, "exp and log of f32, sum of a row", ulps=16, sums=8)


@kernel_case(
    f"{_ATTENTION}.merge_state:merge_state_triton",
    library="sglang",
    kernels="merge_state_kernel",
    shapes="7 tokens, 3 heads of 96",
    dtypes=(torch.float32, *_HALVES),
    is_fast=True,
)
def merge_state(trial: Trial) -> None:
    prefix, suffix = trial.randn(7, 3, 96), trial.randn(7, 3, 96)
    lse = trial.randn(2, 7, 3, dtype=torch.float32, scale=4)
    lse[0, 2, 1] = -torch.inf
    out, out_lse = trial.wrapper(
        trial.put(prefix), trial.put(lse[0]), trial.put(suffix), trial.put(lse[1])
    )
    share = torch.softmax(lse.double(), dim=0).unsqueeze(-1)
    expected = (torch.stack((prefix, suffix)).double() * share).sum(dim=0)
    trial.check("out", out, expected, rounded(trial.dtype, "sum of two in f32, rounded", sums=1))
    trial.check("lse", out_lse, torch.logsumexp(lse.double(), dim=0), _LSE)


@kernel_case(
    f"{_ATTENTION}.prefill_attention:context_attention_fwd",
    library="sglang",
    kernels="_fwd_kernel",
    shapes="sequences of 37, 1, 70; 4 query heads on 2 of 64",
    dtypes=_HALVES,
)
def prefill_attention(trial: Trial) -> None:
    lengths = (37, 1, 70)
    starts = [0, 37, 38]
    q, k, v = trial.randn(108, 4, 64), trial.randn(108, 2, 64), trial.randn(108, 2, 64)
    out = trial.empty(108, 4, 64)
    trial.wrapper(
        trial.put(q),
        trial.put(k),
        trial.put(v),
        out,
        trial.put(torch.tensor(starts, dtype=torch.int32)),
        trial.put(torch.tensor(lengths, dtype=torch.int32)),
        max(lengths),
    )
    expected = [
        attend(
            q[start : start + length],
            k[start : start + length],
            v[start : start + length],
            scale=64**-0.5,
            mask=causal_mask(length, length),
        )[0]
        for start, length in zip(starts, lengths, strict=True)
    ]
    trial.check("out", out, torch.cat(expected), _attended(trial.dtype))


def _decode(
    trial: Trial,
    *,
    heads: tuple[int, int],
    sizes: tuple[int, int],
    lengths: tuple[int, ...] = (61, 5, 130),
    is_mla: bool = False,
    logit_cap: float = 0.0,
) -> None:
    """Decode with scattered slots of a token pool; `sizes` are those of keys and values."""
    query_heads, kv_heads = heads
    size, value_size = sizes
    total, splits, batch = sum(lengths), 4, len(lengths)
    q = trial.randn(batch, query_heads, size)
    keys = trial.randn(total + 9, kv_heads, size)
    values = keys[..., :value_size] if is_mla else trial.randn(total + 9, kv_heads, value_size)
    slots = trial.permutation(total + 9, torch.int64)[:total]
    starts = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    key_buffer = trial.put(keys)
    out = trial.empty(batch, query_heads, value_size)
    trial.wrapper(
        trial.put(q),
        key_buffer,
        key_buffer[..., :value_size] if is_mla else trial.put(values),
        out,
        trial.put(starts),
        trial.put(slots),
        trial.empty(batch, query_heads, splits, value_size, dtype=torch.float32),
        trial.empty(batch, query_heads, splits, dtype=torch.float32),
        trial.put(torch.tensor([4, 1, 3][:batch], dtype=torch.int32)),
        splits,
        size**-0.5,
        1.0,
        1.0,
        logit_cap=logit_cap,
        has_mla=is_mla,
    )
    expected = [
        attend(
            q[i : i + 1],
            keys[slots[starts[i] : starts[i + 1]]],
            values[slots[starts[i] : starts[i + 1]]],
            scale=size**-0.5,
            logit_cap=logit_cap,
        )[0]
        for i in range(batch)
    ]
    trial.check("out", out, torch.cat(expected), _attended(trial.dtype))


@kernel_case(
    f"{_ATTENTION}.decode_attention:decode_attention_fwd",
    library="sglang",
    kernels=("_fwd_kernel_stage1", "_fwd_kernel_stage2"),
    shapes="contexts of 61, 5, 130 in a scattered pool; 3 heads of 80, up to 4 splits",
    dtypes=_HALVES,
)
def decode_attention_multi_head(trial: Trial) -> None:
    _decode(trial, heads=(3, 3), sizes=(80, 80))


@kernel_case(
    f"{_ATTENTION}.decode_attention:decode_attention_fwd",
    library="sglang",
    kernels=("_fwd_grouped_kernel_stage1", "_fwd_kernel_stage2"),
    shapes="contexts of 61, 5, 130 in a scattered pool; 12 query heads on 2 of 96, logits capped",
    dtypes=_HALVES,
)
def decode_attention_grouped(trial: Trial) -> None:
    _decode(trial, heads=(12, 2), sizes=(96, 96), logit_cap=5.0)


@kernel_case(
    f"{_ATTENTION}.decode_attention:decode_attention_fwd",
    library="sglang",
    kernels=("_fwd_grouped_kernel_stage1", "_fwd_kernel_stage2"),
    shapes="MLA: contexts of 33, 70; 16 query heads on 1 of 576, values of 512",
    dtypes=(torch.bfloat16,),
)
def decode_attention_mla(trial: Trial) -> None:
    _decode(trial, heads=(16, 1), sizes=(576, 512), lengths=(33, 70), is_mla=True)


@kernel_case(
    f"{_ATTENTION}.decode_attention:decode_attention_fwd",
    library="sglang",
    kernels="_lean_attention_decode_kernel",
    shapes="stream-K: contexts of 700, 45, 260; 8 query heads on 2 of 128; one workgroup a CU",
    dtypes=_HALVES,
)
def decode_attention_lean(trial: Trial) -> None:
    lengths, size = (700, 45, 260), 128
    module = trial.module
    programs, _, _ = module._lean_decode_launch_params(2, 4)
    q = trial.randn(3, 8, size)
    keys, values = trial.randn(1010, 2, size), trial.randn(1010, 2, size)
    slots = trial.permutation(1010, torch.int64)[: sum(lengths)]
    starts = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    out = trial.empty(3, 8, size)
    trial.wrapper(
        trial.put(q),
        trial.put(keys),
        trial.put(values),
        out,
        trial.put(starts),
        trial.put(slots),
        trial.empty(3, 8, 1, size, dtype=torch.float32),
        trial.empty(3, 8, 1, dtype=torch.float32),
        trial.put(torch.ones(3, dtype=torch.int32)),
        1,
        size**-0.5,
        1.0,
        1.0,
        enable_lean=True,
        lean_Mp=trial.empty(programs, 16, dtype=torch.float32),
        lean_Lp=trial.empty(programs, 16, dtype=torch.float32),
        lean_Op=trial.empty(programs, 16, size, dtype=torch.float32),
        lean_locks=trial.empty(programs, dtype=torch.int32),
    )
    expected = [
        attend(
            q[i : i + 1],
            keys[slots[starts[i] : starts[i + 1]]],
            values[slots[starts[i] : starts[i + 1]]],
            scale=size**-0.5,
        )[0]
        for i in range(3)
    ]
    trial.check("out", out, torch.cat(expected), _attended(trial.dtype))


class _Extend:
    """Sequences with a cached prefix in a scattered pool and new tokens behind it."""

    prefixes, news = (19, 0, 70), (33, 5, 18)

    def __init__(self, trial: Trial, heads: tuple[int, int], size: int) -> None:
        self.query_heads, kv_heads = heads
        total = sum(self.prefixes) + sum(self.news)
        self.q = trial.randn(sum(self.news), self.query_heads, size)
        self.keys = trial.randn(total + 11, kv_heads, size)
        self.values = trial.randn(total + 11, kv_heads, size)
        slots = trial.permutation(total + 11, torch.int64)
        ends = torch.tensor(self.prefixes).cumsum(0).tolist()
        self.prefix_slots = [slots[e - n : e] for e, n in zip(ends, self.prefixes, strict=True)]
        ends = (ends[-1] + torch.tensor(self.news).cumsum(0)).tolist()
        self.new_slots = [slots[e - n : e] for e, n in zip(ends, self.news, strict=True)]
        self.query_starts = torch.tensor([0, *self.news]).cumsum(0).to(torch.int32)
        self.prefix_starts = torch.tensor([0, *self.prefixes]).cumsum(0).to(torch.int32)
        self.scale = size**-0.5

    def reference(self, window: int = -1) -> tuple[torch.Tensor, torch.Tensor]:
        parts = []
        for i, (prefix, new) in enumerate(zip(self.prefixes, self.news, strict=True)):
            slots = torch.cat((self.prefix_slots[i], self.new_slots[i]))
            mask = causal_mask(new, prefix + new)
            if window > 0:
                age = torch.arange(prefix, prefix + new)[:, None] - torch.arange(prefix + new)
                mask &= age <= window
            start = int(self.query_starts[i])
            parts.append(
                attend(
                    self.q[start : start + new],
                    self.keys[slots],
                    self.values[slots],
                    scale=self.scale,
                    mask=mask,
                )
            )
        return torch.cat([out for out, _ in parts]), torch.cat([lse for _, lse in parts])


@kernel_case(
    f"{_ATTENTION}.extend_attention:extend_attention_fwd",
    library="sglang",
    kernels="_fwd_kernel",
    shapes="33, 5, 18 new tokens after 19, 0, 70 cached; 4 query heads on 2 of 128; also the lse",
    dtypes=_HALVES,
)
def extend_attention(trial: Trial) -> None:
    case = _Extend(trial, (4, 2), 128)
    new_slots = torch.cat(case.new_slots)
    out, lse = trial.empty(56, 4, 128), trial.empty(56, 4, dtype=torch.float32)
    trial.wrapper(
        trial.put(case.q),
        trial.put(case.keys[new_slots]),
        trial.put(case.values[new_slots]),
        out,
        trial.put(case.keys),
        trial.put(case.values),
        trial.put(case.query_starts),
        trial.put(case.prefix_starts),
        trial.put(torch.cat(case.prefix_slots)),
        None,
        True,
        None,
        max(case.news),
        1.0,
        1.0,
        sm_scale=case.scale,
        lse_extend=lse,
    )
    expected, expected_lse = case.reference()
    trial.check("out", out, expected, _attended(trial.dtype))
    trial.check("lse", lse, expected_lse, _LSE)


@kernel_case(
    f"{_ATTENTION}.extend_attention:extend_attention_fwd_unified",
    library="sglang",
    kernels=("_fwd_kernel_unified", "_copy_unified_indices_kernel"),
    shapes="33, 5, 18 new tokens after 19, 0, 70 cached; 4 query heads on 1 of 64; window of 24",
    dtypes=_HALVES,
)
def extend_attention_unified(trial: Trial) -> None:
    case = _Extend(trial, (4, 1), 64)
    starts, slots, prefixes = trial.module.build_unified_kv_indices(
        trial.put(case.prefix_starts),
        trial.put(torch.cat(case.prefix_slots)),
        trial.put(case.query_starts[:-1].contiguous()),
        trial.put(torch.tensor(case.news, dtype=torch.int32)),
        trial.put(torch.cat(case.new_slots)),
        3,
    )
    joined = [t for pair in zip(case.prefix_slots, case.new_slots, strict=True) for t in pair]
    trial.check("slots", slots, torch.cat(joined), EXACT)
    out = trial.empty(56, 4, 64)
    trial.wrapper(
        trial.put(case.q),
        out,
        trial.put(case.keys),
        trial.put(case.values),
        1.0,
        1.0,
        trial.put(case.query_starts),
        starts,
        slots,
        prefixes,
        max(case.news),
        sm_scale=case.scale,
        sliding_window_size=24,
    )
    trial.check("out", out, case.reference(window=24)[0], _attended(trial.dtype))


@kernel_case(
    f"{_ATTENTION}.extend_attention:dense_prefill_attention_fwd",
    library="sglang",
    kernels="_fwd_kernel_dense_prefill",
    shapes="33, 5, 18 queries on 52, 5, 88 keys; 4 query heads on 2 of 64; also the lse",
    dtypes=_HALVES,
)
def dense_prefill_attention(trial: Trial) -> None:
    case = _Extend(trial, (4, 2), 64)
    order = [t for pair in zip(case.prefix_slots, case.new_slots, strict=True) for t in pair]
    slots = torch.cat(order)
    out, lse = trial.empty(56, 4, 64), trial.empty(56, 4, dtype=torch.float32)
    trial.wrapper(
        trial.put(case.q),
        trial.put(case.keys[slots]),
        trial.put(case.values[slots]),
        out,
        trial.put(case.query_starts),
        trial.put(case.query_starts + case.prefix_starts),
        max(case.news),
        sm_scale=case.scale,
        lse=lse,
    )
    expected, expected_lse = case.reference()
    trial.check("out", out, expected, _attended(trial.dtype))
    trial.check("lse", lse, expected_lse, _LSE)
