"""AITER's kernels that people wrote in assembly: products, paged attention, layer norm, routing."""

from __future__ import annotations

import torch
from kernel_case import Tolerance, kernel_case, rounded
from kernel_trial import Trial

_MODULE = "aiter_assembly"
_BF16 = (torch.bfloat16,)
_GEMM = "_ZN5aiter28bf16gemm_outf32_tn_32x64_pf3E"


@kernel_case(
    f"{_MODULE}:topk_softmax",
    library="amd_aiter",
    kernels="_ZN5aiter19topksoftmax_4x128x8E",
    shapes="6 tokens, 8 of 128 experts",
    arches=("gfx942",),
)
def topk_softmax_assembly(trial: Trial) -> None:
    gating = trial.randn(6, 128)
    weights = trial.empty(6, 8)
    indices = trial.empty(6, 8, dtype=torch.int32)
    trial.wrapper(trial.arch, weights, indices, trial.put(gating))
    expected, experts = gating.double().softmax(-1).topk(8)
    trial.check("indices", indices, experts.int())
    trial.check(
        "weights",
        weights,
        expected / expected.sum(-1, keepdim=True),
        rounded(torch.float32, "v_exp_f32 and quotients", ulps=64),
    )


@kernel_case(
    f"{_MODULE}:layer_norm",
    library="amd_aiter",
    kernels="layer_norm_kernel_func",
    shapes="4 x 8192, residual",
    dtypes=_BF16,
    arches=("gfx942",),
    finding="sums of the next row overwrite this one's in LDS without a barrier between; and "
    "rows are normalised without their mean",
)
def layer_norm_assembly(trial: Trial) -> None:
    x, residual = trial.randn(4, 8192), trial.randn(4, 8192)
    weight, bias = trial.randn(8192), trial.randn(8192)
    out, residual_out = trial.empty(4, 8192), trial.empty(4, 8192)
    trial.wrapper(
        trial.arch,
        trial.put(x),
        trial.put(residual),
        out=out,
        residual_out=residual_out,
        weight=trial.put(weight),
        bias=trial.put(bias),
        epsilon=1e-5,
    )
    total = x.double() + residual.double()
    normal = torch.nn.functional.layer_norm(
        total, (8192,), weight.double(), bias.double(), eps=1e-5
    )
    trial.check("residual", residual_out, total, rounded(trial.dtype, "a sum, rounded"))
    trial.check("out", out, normal, rounded(trial.dtype, "f32 sums, rounded", ulps=2, sums=0.1))


def _check_gemm(trial: Trial, splits: int) -> None:
    a, b = trial.randn(40, 256), trial.randn(128, 256)
    out = trial.put(torch.zeros(40, 128))
    trial.wrapper(trial.arch, out, trial.put(a), trial.put(b), splits)
    reason = "f32 sums of exact products"
    trial.check(
        "out", out, a.double() @ b.double().T, rounded(torch.float32, reason, ulps=16, sums=64)
    )


@kernel_case(
    f"{_MODULE}:bf16_gemm",
    library="amd_aiter",
    kernels=_GEMM,
    shapes="40 x 256 times 256 x 128, tiles of 32 x 64",
    dtypes=_BF16,
)
def gemm_assembly(trial: Trial) -> None:
    _check_gemm(trial, 1)


@kernel_case(
    f"{_MODULE}:bf16_gemm",
    library="amd_aiter",
    kernels=_GEMM,
    shapes="40 x 256 times 256 x 128, 2 parts of k added by atomics",
    dtypes=_BF16,
)
def gemm_split_k_assembly(trial: Trial) -> None:
    _check_gemm(trial, 2)


@kernel_case(
    f"{_MODULE}:paged_attention",
    library="amd_aiter",
    kernels="_ZN5aiter27pa_bf16_noquant_gqa8_1tg_4wE",
    shapes="2 sequences of 70 and 33 tokens, 8 query heads and 1 key head of 128, pages of 16",
    dtypes=_BF16,
)
def paged_attention_assembly(trial: Trial) -> None:
    lengths, pages, group = [70, 33], 12, 8
    q = trial.randn(2, group, 128)
    k, v = trial.randn(pages, 1, 16, 128), trial.randn(pages, 1, 16, 128)
    tables = trial.permutation(pages).reshape(2, 6)
    out = trial.empty(2, group, 128)
    trial.wrapper(
        trial.arch,
        trial.put(q),
        trial.put(k.reshape(pages, 1, 16, 16, 8).permute(0, 1, 3, 2, 4).contiguous()),
        trial.put(v.reshape(pages, 1, 2, 8, 128).permute(0, 1, 2, 4, 3).contiguous()),
        out=out,
        block_tables=trial.put(tables),
        context_lengths=trial.put(torch.tensor(lengths, dtype=torch.int32)),
    )
    expected = []
    for sequence, length in enumerate(lengths):
        keys = k[tables[sequence].long(), 0].reshape(-1, 128)[:length].double()
        values = v[tables[sequence].long(), 0].reshape(-1, 128)[:length].double()
        scores = (q[sequence].double() @ keys.T / 128**0.5).softmax(-1)
        expected.append(scores @ values)
    trial.check(
        "out",
        out,
        torch.stack(expected),
        Tolerance(absolute=0.02, relative=0.02, reason="weights and result in bfloat16"),
    )
