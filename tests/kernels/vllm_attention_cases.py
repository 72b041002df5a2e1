"""vLLM's attention kernels."""

from __future__ import annotations

import torch
from kernel_case import kernel_case, rounded
from kernel_trial import Trial

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@kernel_case(
    "vllm.v1.attention.ops.triton_merge_attn_states:merge_attn_states",
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
