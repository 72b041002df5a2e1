"""SGLang's LoRA, normalisation, activation and rotation kernels."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from kernel_case import Tolerance, kernel_case, rounded
from kernel_trial import Trial

_LORA = "sglang.kernels.ops.lora.dense"
_NORM = "sglang.kernels.ops.layernorm"
_HALVES = (torch.bfloat16, torch.float16)
_FLOATS = (torch.float32, *_HALVES)


class _Adapters:
    """Three requests with adapters 2, 0 and 1; adapter 0 has rank 0, so it adds nothing."""

    lengths, adapters = (19, 4, 33), (2, 0, 1)

    def __init__(self, trial: Trial) -> None:
        self.ranks, self.scales = torch.tensor([0, 16, 24]), torch.tensor([1.0, 0.5, 2.0])
        starts = torch.tensor([0, *self.lengths]).cumsum(0)
        self.parts = [slice(int(starts[i]), int(starts[i + 1])) for i in range(3)]
        integers = {
            "seg_lens": torch.tensor(self.lengths),
            "seg_indptr": starts,
            "weight_indices": torch.tensor(self.adapters),
            "lora_ranks": self.ranks,
        }
        self.batch = SimpleNamespace(
            bs=3,
            num_segments=3,
            max_len=max(self.lengths),
            permutation=None,
            use_cuda_graph=False,
            scalings=trial.put(self.scales),
            **{name: trial.put(tensor.to(torch.int32)) for name, tensor in integers.items()},
        )


def _summed(dtype: torch.dtype) -> Tolerance:
    return rounded(dtype, "f32 sums, rounded, added", ulps=1.5, sums=0.2)


@kernel_case(
    f"{_LORA}.sgemm_lora_a:sgemm_lora_a_fwd",
    library="sglang",
    kernels="_sgemm_lora_a_kernel",
    shapes="56 tokens of 300, ranks 24, 0, 16 of at most 32, two stacked",
    dtypes=_HALVES,
)
def lora_a(trial: Trial) -> None:
    case = _Adapters(trial)
    x, weights = trial.randn(56, 300), trial.randn(3, 64, 300, scale=0.1)
    out = trial.wrapper(trial.put(x), trial.put(weights), case.batch, 2)
    for part, adapter in zip(case.parts, case.adapters, strict=True):
        rank = 2 * int(case.ranks[adapter])
        expected = x[part].double() @ weights[adapter, :rank].double().T
        if rank:
            trial.check(f"adapter {adapter}", out[part, :rank], expected, _summed(trial.dtype))


def _expand(
    case: _Adapters, x: torch.Tensor, weights: torch.Tensor, base: torch.Tensor, slices: list[int]
) -> torch.Tensor:
    """base + scale · x_slice · B_sliceᵀ; x holds the slices' ranks one after the other."""
    expected = base.double()
    bounds = torch.tensor([0, *slices]).cumsum(0).tolist()
    for part, adapter in zip(case.parts, case.adapters, strict=True):
        rank = int(case.ranks[adapter])
        for i in range(len(slices)):
            rows = slice(bounds[i], bounds[i + 1])
            left = x[part, i * rank : (i + 1) * rank].double()
            product = left @ weights[adapter, rows, :rank].double().T
            expected[part, rows] += case.scales[adapter].double() * product
    return expected


@kernel_case(
    f"{_LORA}.sgemm_lora_b:sgemm_lora_b_fwd",
    library="sglang",
    kernels="_sgemm_lora_b_kernel",
    shapes="56 tokens, ranks 24, 0, 16 of at most 32, 300 outputs added to a base",
    dtypes=_HALVES,
)
def lora_b(trial: Trial) -> None:
    case = _Adapters(trial)
    x, weights, base = trial.randn(56, 32), trial.randn(3, 300, 32), trial.randn(56, 300)
    out = trial.wrapper(trial.put(x), trial.put(weights), case.batch, trial.put(base))
    expected = _expand(case, x, weights, base, [300])
    trial.check("out", out, expected, _summed(trial.dtype))


@kernel_case(
    f"{_LORA}.qkv_lora_b:qkv_lora_b_fwd",
    library="sglang",
    kernels="_qkv_lora_b_kernel",
    shapes="56 tokens, ranks 24, 0, 16, outputs of 128, 64, 64 added to a base",
    dtypes=_HALVES,
)
def lora_qkv(trial: Trial) -> None:
    case, slices = _Adapters(trial), [128, 64, 64]
    x, weights, base = trial.randn(56, 96), trial.randn(3, 256, 32), trial.randn(56, 256)
    bounds = torch.tensor([0, *slices]).cumsum(0).to(torch.int32)
    out = trial.wrapper(
        trial.put(x),
        trial.put(weights),
        case.batch,
        trial.put(bounds),
        128,
        base_output=trial.put(base),
    )
    trial.check("out", out, _expand(case, x, weights, base, slices), _summed(trial.dtype))


@kernel_case(
    f"{_LORA}.gate_up_lora_b:gate_up_lora_b_fwd",
    library="sglang",
    kernels="_gate_up_lora_b_kernel",
    shapes="56 tokens, ranks 24, 0, 16, 2 x 100 outputs added to a base",
    dtypes=_HALVES,
)
def lora_gate_up(trial: Trial) -> None:
    case = _Adapters(trial)
    x, weights, base = trial.randn(56, 64), trial.randn(3, 200, 32), trial.randn(56, 200)
    out = trial.wrapper(
        trial.put(x), trial.put(weights), case.batch, 100, base_output=trial.put(base)
    )
    trial.check("out", out, _expand(case, x, weights, base, [100, 100]), _summed(trial.dtype))


def _rms(x: torch.Tensor, epsilon: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)


@kernel_case(
    f"{_NORM}.fused_rmsnorm:fused_dual_residual_rmsnorm",
    library="sglang",
    kernels="fused_dual_residual_rmsnorm_kernel",
    shapes="5 rows of 700",
    dtypes=_FLOATS,
)
def dual_residual_rms_norm(trial: Trial) -> None:
    x, residual = trial.randn(5, 700), trial.randn(5, 700)
    first, second = trial.randn(700), trial.randn(700)
    out, mid = trial.wrapper(*(trial.put(t) for t in (x, residual, first, second)), 1e-5)
    added = (_rms(x.double(), 1e-5) * first.double()).to(trial.dtype).double()
    total = residual.double() + added
    close = rounded(trial.dtype, "norm and sum rounded", ulps=2, sums=1)
    trial.check("mid", mid, total, close)
    expected = _rms(mid.cpu().double(), 1e-5) * second.double()
    trial.check("out", out, expected, rounded(trial.dtype, "norm rounded", ulps=8))


@kernel_case(
    f"{_NORM}.gemma4_fused_ops:gemma_dual_rmsnorm_residual_scalar",
    library="sglang",
    kernels="_gemma_dual_rmsnorm_residual_kernel",
    shapes="5 rows of 700",
    dtypes=_FLOATS,
)
def gemma_dual_rms_norm(trial: Trial) -> None:
    x, y, residual = (trial.randn(5, 700) for _ in range(3))
    w1, w2, w3 = (trial.randn(700) for _ in range(3))
    scale = torch.tensor([1.5]).to(trial.dtype)
    out = trial.wrapper(*(trial.put(t) for t in (x, w1, y, w2, w3, residual, scale)))
    total = _rms(x.double(), 1e-6) * w1.double() + _rms(y.double(), 1e-6) * w2.double()
    expected = (_rms(total, 1e-6) * w3.double() + residual.double()) * 1.5
    trial.check("out", out, expected, rounded(trial.dtype, "norms in f32", ulps=4, sums=1))


@kernel_case(
    f"{_NORM}.gemma4_fused_ops:gemma_qkv_rmsnorm",
    library="sglang",
    kernels="_gemma_qkv_rmsnorm_kernel",
    shapes="6 tokens, 4 query and 2 key heads of 96, in place",
    dtypes=_FLOATS,
)
def gemma_qkv_rms_norm(trial: Trial) -> None:
    tensors = [trial.randn(6, heads * 96) for heads in (4, 2, 2)]
    weights = [trial.randn(96), trial.randn(96), torch.ones(96)]
    on_device = [trial.put(t) for t in tensors]
    trial.wrapper(*on_device, trial.put(weights[0]), trial.put(weights[1]), 4, 2, 96)
    for name, source, weight, out in zip("qkv", tensors, weights, on_device, strict=True):
        expected = _rms(source.double().reshape(6, -1, 96), 1e-6) * weight.double()
        close = rounded(trial.dtype, "norm in f32", ulps=4)
        trial.check(name, out, expected.reshape(6, -1), close)


@kernel_case(
    "sglang.kernels.ops.activation.gelu_and_mul_triton:gelu_and_mul_triton",
    library="sglang",
    kernels="gelu_and_mul_kernel",
    shapes="5 rows of 2 x 700; erf",
    dtypes=_FLOATS,
)
def gelu_and_mul(trial: Trial) -> None:
    x = trial.randn(5, 1400, scale=2)
    out, _ = trial.wrapper(trial.put(x))
    gelu = torch.nn.functional.gelu(x[:, :700].double()).to(trial.dtype).double()
    expected = gelu * x[:, 700:].double()
    # 1 + erf(x) cancels where x is very negative.
    close = rounded(trial.dtype, "gelu and product rounded", ulps=4, sums=1)
    trial.check("out", out, expected, close)


@kernel_case(
    "sglang.kernels.ops.elementwise.elementwise:fused_gate_sigmoid_mul_add",
    library="sglang",
    kernels="_fused_gate_sigmoid_mul_add_kernel",
    shapes="5 rows of 700",
    dtypes=_FLOATS,
)
def gate_sigmoid_mul_add(trial: Trial) -> None:
    hidden, gate = trial.randn(5, 700), trial.randn(700, scale=0.1)
    shared, total = trial.randn(5, 700), trial.randn(5, 700)
    out = trial.put(total)
    trial.wrapper(trial.put(hidden), trial.put(gate), trial.put(shared), out)
    share = torch.sigmoid(hidden.double() @ gate.double())[:, None]
    expected = total.double() + share * shared.double()
    trial.check("out", out, expected, rounded(trial.dtype, "sums in f32", ulps=8, sums=2))


@kernel_case(
    "sglang.kernels.ops.attention.mrope:apply_interleaved_rope_triton",
    library="sglang",
    kernels="apply_interleaved_rope_kernel",
    shapes="3 axes, 50 tokens, 64 pairs, of which 20 and 20 by axis 1 and 2",
    dtypes=_FLOATS,
)
def interleaved_rope(trial: Trial) -> None:
    x = trial.randn(3, 50, 64)
    out = trial.wrapper(trial.put(x), [24, 20, 20])
    expected = x[0].clone()
    expected[:, 1:60:3] = x[1][:, 1:60:3]
    expected[:, 2:60:3] = x[2][:, 2:60:3]
    trial.check("out", out, expected)
