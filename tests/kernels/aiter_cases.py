"""AITER's Triton operators: split-K and grouped products, stream-K attention, sorting."""

from __future__ import annotations

import torch
from kernel_case import EXACT, Tolerance, kernel_case, rounded
from kernel_trial import Trial
from sglang_attention_reference import attend, causal_mask

_OPS = "aiter.ops.triton"
_HALVES = (torch.bfloat16, torch.float16)
_FLOATS = (torch.float32, *_HALVES)
_TILE = {
    "BLOCK_SIZE_M": 32,
    "BLOCK_SIZE_N": 32,
    "BLOCK_SIZE_K": 64,
    "GROUP_SIZE_M": 2,
    "num_warps": 4,
    "num_stages": 2,
    "waves_per_eu": 0,
    "matrix_instr_nonkdim": 16,
    "cache_modifier": "",
}


@kernel_case(
    f"{_OPS}.gemm_a16w16:gemm_a16w16",
    library="amd_aiter",
    kernels=("_gemm_a16_w16_kernel", "_gemm_a16w16_reduce_kernel"),
    shapes="37 x 512 times 512 x 72, in 4 parts of k, bias, gelu",
    dtypes=_HALVES,
)
def gemm_split_k(trial: Trial) -> None:
    x, w, bias = trial.randn(37, 512), trial.randn(72, 512), trial.randn(72)
    out = trial.wrapper(
        trial.put(x),
        trial.put(w),
        bias=trial.put(bias),
        dtype=trial.dtype,
        config={**_TILE, "NUM_KSPLIT": 4, "SPLITK_BLOCK_SIZE": 128},
        activation="gelu",
    )
    total = x.double() @ w.double().T + bias.double()
    expected = torch.nn.functional.gelu(total)
    trial.check("out", out, expected, rounded(trial.dtype, "f32 sums, rounded", sums=0.1))


@kernel_case(
    f"{_OPS}.gemm_a16w16_atomic:gemm_a16w16_atomic",
    library="amd_aiter",
    kernels="_gemm_a16_w16_atomic_kernel",
    shapes="37 x 512 times 512 x 72, 4 parts of k added by float atomics",
    dtypes=_HALVES,
)
def gemm_split_k_atomic(trial: Trial) -> None:
    x, w = trial.randn(37, 512), trial.randn(72, 512)
    config = {**_TILE, "NUM_KSPLIT": 4}
    float32 = trial.wrapper(trial.put(x), trial.put(w), dtype=torch.float32, config={**config})
    expected = x.double() @ w.double().T
    close = rounded(torch.float32, "f32 sums", ulps=64, sums=16)
    trial.check("float32", float32, expected, close)
    out = trial.wrapper(trial.put(x), trial.put(w), dtype=trial.dtype, config={**config})
    trial.check("out", out, expected, rounded(trial.dtype, "four sums rounded", ulps=2, sums=2))


@kernel_case(
    f"{_OPS}.gmm:gmm",
    library="amd_aiter",
    kernels="gmm_kernel",
    shapes="groups of 19, 0, 33, 5 rows of 96, times 96 x 80 each; persistent workgroups",
    dtypes=_HALVES,
)
def grouped_matmul(trial: Trial) -> None:
    sizes = torch.tensor([19, 0, 33, 5], dtype=torch.int32)
    x, w = trial.randn(57, 96), trial.randn(4, 96, 80)
    config = {
        "BLOCK_SIZE_M": 16,
        "BLOCK_SIZE_K": 32,
        "BLOCK_SIZE_N": 32,
        "GROUP_SIZE": 1,
        "GRID_DIM": 7,
    }
    out = trial.wrapper(
        trial.put(x),
        trial.put(w),
        trial.put(sizes),
        preferred_element_type=trial.dtype,
        config=config,
    )
    owner = torch.arange(4).repeat_interleave(sizes.long())
    expected = torch.einsum("mk,mkn->mn", x.double(), w.double()[owner])
    trial.check("out", out, expected, rounded(trial.dtype, "f32 sums, rounded", sums=0.1))


@kernel_case(
    f"{_OPS}.lean_atten:_persistent_lean_attention",
    library="amd_aiter",
    kernels="la_persistent",
    shapes="stream-K: 16 queries on 320, 64, 192 keys; 4 heads of 64 on 7 workgroups that spin",
    dtypes=(torch.float16,),
)
def lean_attention(trial: Trial) -> None:
    lengths, block, programs = (320, 64, 192), 32, 7
    # Whole blocks of queries: the kernel masks no rows.
    q = trial.randn(48, 4, 64)
    k, v = trial.randn(576, 4, 64), trial.randn(576, 4, 64)
    ends = torch.tensor(lengths).cumsum(0)
    # The public function asks for a count of compute units that this wheel does not define.
    answer = trial.wrapper(
        trial.put(q),
        trial.put(k),
        trial.put(v),
        trial.empty(programs, 16, dtype=torch.float32),
        trial.empty(programs, 16, dtype=torch.float32),
        trial.empty(programs, 16, 64, dtype=torch.float32),
        trial.put(torch.zeros(programs, dtype=torch.int32)),
        trial.put((ends // block).to(torch.int32)),
        programs,
        16,
        block,
        False,
        False,
        3,
        RAGGED_BATCH=True,
        num_warps=4,
        waves_per_eu=1,
    )
    out = answer[0] if isinstance(answer, tuple) else answer
    expected = [
        attend(
            q[16 * i : 16 * i + 16],
            k[end - length : end],
            v[end - length : end],
            scale=0.125,
        )[0]
        for i, (end, length) in enumerate(zip(ends.tolist(), lengths, strict=True))
    ]
    close = rounded(trial.dtype, "weights and output rounded once each", sums=1)
    trial.check("out", out, torch.cat(expected), close)


@kernel_case(
    f"{_OPS}.topk:topk",
    library="amd_aiter",
    kernels="_topk_kernel",
    shapes="5 rows of 300, 8 largest, in one step",
    dtypes=(torch.float32, torch.bfloat16),
)
def topk_one_stage(trial: Trial) -> None:
    x = torch.stack([trial.permutation(300) for _ in range(5)])
    x = (x.clamp(min=180) - 240).to(trial.dtype)
    values, places = trial.wrapper(trial.put(x), 8)
    expected, expected_places = x.topk(8)
    trial.check("values", values, expected, EXACT)
    trial.check("places", places, expected_places, EXACT)


@kernel_case(
    f"{_OPS}.topk:topk",
    library="amd_aiter",
    kernels=("topk_stage1_kernel", "topk_stage2_kernel"),
    shapes="3 rows of 5000, 8 largest, in two steps; bitonic sort",
)
def topk_two_stages(trial: Trial) -> None:
    x = torch.stack([trial.permutation(5000) for _ in range(3)]).float()
    values, places = trial.wrapper(trial.put(x), 8)
    expected, expected_places = x.topk(8)
    trial.check("values", values, expected, EXACT)
    trial.check("places", places, expected_places, EXACT)


@kernel_case(
    f"{_OPS}.softmax:softmax",
    library="amd_aiter",
    kernels="_softmax_kernel_online",
    shapes="5 rows of 20000, in blocks of 16384 and more",
    dtypes=(torch.float32, torch.bfloat16),
)
def softmax(trial: Trial) -> None:
    x = trial.randn(5, 20000, scale=3)
    out = trial.wrapper(trial.put(x))
    expected = torch.softmax(x.double(), dim=1)
    ulps = 64 if trial.dtype == torch.float32 else 1.5
    trial.check("out", out, expected, rounded(trial.dtype, "exp of f32", ulps=ulps))


@kernel_case(
    f"{_OPS}.norm:layer_norm",
    library="amd_aiter",
    kernels=(
        "_layernorm_kernel",
        "_layernorm_bwd_dx_fused_triton",
        "_layernorm_bwd_dwdb_triton_v2",
    ),
    shapes="9 rows of 700, forward and backward",
    dtypes=_FLOATS,
)
def layer_norm(trial: Trial) -> None:
    x, w, b, dy = trial.randn(9, 700), trial.randn(700), trial.randn(700), trial.randn(9, 700)
    leaves = [trial.put(t).requires_grad_() for t in (x, w, b)]
    out = trial.wrapper(*leaves)
    torch.autograd.backward(out, trial.put(dy))
    doubles = [t.double().requires_grad_() for t in (x, w, b)]
    expected = torch.nn.functional.layer_norm(doubles[0], (700,), doubles[1], doubles[2])
    torch.autograd.backward(expected, dy.double())
    close = rounded(trial.dtype, "norm in f32", ulps=4, sums=2)
    trial.check("out", out.detach(), expected.detach(), close)
    for name, got, wanted in zip(("dx", "dw", "db"), leaves, doubles, strict=True):
        assert got.grad is not None and wanted.grad is not None
        trial.check(name, got.grad, wanted.grad, close)


@kernel_case(
    f"{_OPS}.rmsnorm:rms_norm",
    library="amd_aiter",
    kernels=("_rms_norm_kernel", "_rmsnorm_bwd_triton", "_rmsnorm_bwd_dg_reduce_triton"),
    shapes="9 rows of 700, forward and backward; persistent workgroups",
    dtypes=_FLOATS,
)
def rms_norm(trial: Trial) -> None:
    x, w, dy = trial.randn(9, 700), trial.randn(700), trial.randn(9, 700)
    leaves = [trial.put(t).requires_grad_() for t in (x, w)]
    out = trial.wrapper(*leaves, 1e-5)
    torch.autograd.backward(out, trial.put(dy))
    doubles = [t.double().requires_grad_() for t in (x, w)]
    inverse = torch.rsqrt(doubles[0].square().mean(-1, keepdim=True) + 1e-5)
    expected = doubles[0] * inverse * doubles[1]
    torch.autograd.backward(expected, dy.double())
    close = rounded(trial.dtype, "norm in f32", ulps=4, sums=2)
    trial.check("out", out.detach(), expected.detach(), close)
    for name, got, wanted in zip(("dx", "dg"), leaves, doubles, strict=True):
        assert got.grad is not None and wanted.grad is not None
        trial.check(name, got.grad, wanted.grad, close)


def _rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """NeoX: the first half of a head turns against the second; x [S, B, H, D]."""
    first, second = x.double().chunk(2, dim=-1)
    cos, sin = angles.double().cos(), angles.double().sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


@kernel_case(
    f"{_OPS}.rope:rope_fwd",
    library="amd_aiter",
    kernels="_rope_kernel_sbhd_fwd",
    shapes="37 positions, 2 sequences, 3 heads of 64; sine and cosine on the device",
    dtypes=_FLOATS,
)
def rope(trial: Trial) -> None:
    x = trial.randn(37, 2, 3, 64)
    angles = trial.rand(37, 1, 1, 32, dtype=torch.float32) * 40
    out = trial.wrapper(trial.put(x), trial.put(angles.to(trial.dtype)), 0, True, False)
    expected = _rotate(x, angles.to(trial.dtype))
    close = rounded(trial.dtype, "sine, cosine and products", ulps=4, sums=2)
    trial.check("out", out, expected, close)


@kernel_case(
    f"{_OPS}.moe_routing.topk:topk",
    library="amd_aiter",
    kernels="_topk",
    shapes="45 tokens, 4 of 100 experts; packed keys, bit matrix, softmax",
    dtypes=(torch.float32, torch.bfloat16),
)
def routing_topk(trial: Trial) -> None:
    x = torch.stack([trial.permutation(100) for _ in range(45)])
    x = ((x - 50) / 16).to(trial.dtype)
    values, experts, matrix = trial.wrapper(trial.put(x), 4)
    expected, expected_experts = x.double().topk(4)
    # The kernel orders a token's experts by number.
    expected_experts, order = expected_experts.sort(dim=1)
    shares = torch.softmax(expected.gather(1, order), dim=1)
    trial.check("experts", experts, expected_experts, EXACT)
    ulps = 16 if trial.dtype == torch.float32 else 2
    close = rounded(trial.dtype, "softmax in f32", ulps=ulps)
    trial.check("shares", values, shares, close)
    words = matrix.data
    bits = (words.cpu().long().unsqueeze(-1) >> torch.arange(32)) & 1
    chosen = torch.zeros(45, 128, dtype=torch.long).scatter(1, expected_experts, 1)
    trial.check("bits", bits.flatten(1)[:45, :100], chosen[:, :100], EXACT)


_FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def _widen_fp4(packed: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    nibbles = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1).long()
    values = _FP4[nibbles & 7].double() * torch.where(nibbles > 7, -1.0, 1.0)
    return values * (exponents.double() - 127).exp2().repeat_interleave(32, dim=1)


@kernel_case(
    f"{_OPS}.gemm_afp4wfp4:gemm_afp4wfp4",
    library="amd_aiter",
    kernels=("_gemm_afp4_wfp4_kernel", "_gemm_afp4_wfp4_reduce_kernel"),
    shapes="37 x 1024 times 1024 x 72 in FP4, 2 parts of k, scaled matrix instructions",
    dtypes=_HALVES,
    arches=("gfx950",),
)
def gemm_fp4(trial: Trial) -> None:
    x = trial.integers(0, 256, 37, 512, dtype=torch.uint8)
    w = trial.integers(0, 256, 72, 512, dtype=torch.uint8)
    x_scales = trial.integers(122, 132, 37, 32, dtype=torch.uint8)
    w_scales = trial.integers(122, 132, 72, 32, dtype=torch.uint8)
    config = {**_TILE, "BLOCK_SIZE_K": 256, "NUM_KSPLIT": 2}
    operands = (trial.put(t) for t in (x, w, x_scales, w_scales))
    out = trial.wrapper(*operands, dtype=trial.dtype, config=config)
    expected = _widen_fp4(x, x_scales) @ _widen_fp4(w, w_scales).T
    trial.check("out", out, expected, rounded(trial.dtype, "f32 sums, rounded", ulps=2, sums=1))


@kernel_case(
    f"{_OPS}.quant:dynamic_mxfp4_quant",
    library="amd_aiter",
    kernels="_dynamic_mxfp4_quant_kernel",
    shapes="37 rows of 192 to FP4 with a scale for 32",
    dtypes=(torch.bfloat16,),
)
def quantise_fp4(trial: Trial) -> None:
    x = trial.randn(37, 192, scale=4)
    packed, exponents = trial.wrapper(trial.put(x))
    groups = x.float().reshape(37, 6, 32)
    # "Even" scaling: the largest magnitude, rounded to two bits of mantissa, fits below 2^3.
    bits = groups.abs().amax(-1).view(torch.int32)
    rounded_up = ((bits + 0x200000) & 0x7F800000).view(torch.float32)
    expected_exponents = rounded_up.log2().floor() - 2 + 127
    trial.check("exponents", exponents, expected_exponents, EXACT)
    scaled = (groups / (expected_exponents - 127).exp2().unsqueeze(-1)).double()
    places = (scaled.abs().unsqueeze(-1) - _FP4.double()).abs()
    nearest = places.amin(-1)
    values = _widen_fp4(packed.cpu(), exponents.cpu()).reshape(37, 6, 32)
    got = (values / (expected_exponents.double() - 127).exp2().unsqueeze(-1) - scaled).abs()
    # Values beyond 6 saturate; all others go to the nearest of the eight magnitudes.
    trial.check("distance", got, nearest, Tolerance(absolute=1e-12, reason="exact in double"))


def _attend_pages(trial: Trial, lengths: tuple[int, ...], queries: tuple[int, ...]) -> None:
    """The last queries of each context, which lies in pages of 16 in random order."""
    columns = -(-max(lengths) // 16)
    pages = trial.permutation(len(lengths) * columns + 2)
    table = pages[: len(lengths) * columns].reshape(len(lengths), columns).contiguous()
    keys, values = (trial.randn(len(pages), 16, 2, 64) for _ in range(2))
    starts = torch.tensor([0, *queries]).cumsum(0).to(torch.int32)
    q, out = trial.randn(sum(queries), 8, 64), trial.empty(sum(queries), 8, 64)
    trial.wrapper(
        trial.put(q),
        trial.put(keys),
        trial.put(values),
        out,
        trial.put(starts),
        max(queries),
        trial.put(torch.tensor(lengths, dtype=torch.int32)),
        max(lengths),
        0.125,
        True,
        (-1, -1),
        trial.put(table),
        0.0,
        None,
        None,
        None,
    )
    expected = [
        attend(
            q[int(starts[i]) : int(starts[i + 1])],
            keys[table[i].long()].flatten(0, 1)[:length],
            values[table[i].long()].flatten(0, 1)[:length],
            scale=0.125,
            mask=causal_mask(count, length),
        )[0]
        for i, (length, count) in enumerate(zip(lengths, queries, strict=True))
    ]
    close = rounded(trial.dtype, "weights and output rounded once each", sums=1)
    trial.check("out", out, torch.cat(expected), close)


@kernel_case(
    f"{_OPS}.unified_attention:unified_attention",
    library="amd_aiter",
    kernels=("kernel_unified_attention_3d", "reduce_segments"),
    shapes="decode: contexts of 700, 17, 64 in pages of 16; 8 query heads on 2 of 64; segments",
    dtypes=_HALVES,
)
def unified_attention_decode(trial: Trial) -> None:
    _attend_pages(trial, (700, 17, 64), (1, 1, 1))


@kernel_case(
    f"{_OPS}.unified_attention:unified_attention",
    library="amd_aiter",
    kernels="kernel_unified_attention_2d",
    shapes="9, 1, 20 queries on contexts of 90, 17, 20 in pages of 16; 8 query heads on 2 of 64",
    dtypes=_HALVES,
)
def unified_attention_mixed(trial: Trial) -> None:
    _attend_pages(trial, (90, 17, 20), (9, 1, 20))
