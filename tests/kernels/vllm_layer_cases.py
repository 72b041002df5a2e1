"""vLLM's kernels of other layers: LoRA, batch-invariant products and norms, rotary embeddings."""

from __future__ import annotations

from typing import Any

import torch
from kernel_case import EXACT, kernel_case, multiplied, rounded
from kernel_trial import Trial
from torch.nn import functional

_LORA = "vllm.lora.ops.triton_ops"
_INVARIANT = "vllm.model_executor.determinism.batch_invariant"
_HALVES = (torch.float16, torch.bfloat16)
_FLOATS = (torch.float32, *_HALVES)
_ADAPTERS = torch.tensor([1, -1, 0, 1, 2, -1, 0, 1, 1, 2, 0])
"""Which of 3 adapters each of 11 tokens has; -1 is none."""


def _lora_metadata(trial: Trial) -> tuple[Any, ...]:
    module = trial.load(f"{_LORA}.lora_kernel_metadata")
    metadata = module.LoRAKernelMeta.make(3, len(_ADAPTERS), trial.device)
    metadata.prepare_tensors(trial.put(_ADAPTERS.to(torch.int32)))
    arguments: tuple[Any, ...] = metadata.meta_args(len(_ADAPTERS), False)
    return arguments


@kernel_case(
    f"{_LORA}.lora_shrink_op:lora_shrink",
    kernels="_lora_shrink_kernel",
    shapes="11 tokens of 200, 3 adapters of rank 8, 2 slices; some tokens without",
    dtypes=_HALVES,
)
def lora_shrink(trial: Trial) -> None:
    x, weights = trial.randn(11, 200), trial.randn(2, 3, 1, 8, 200)
    out = trial.empty(2, 11, 8, dtype=torch.float32)
    arguments = _lora_metadata(trial)
    trial.wrapper(trial.put(x), [trial.put(w) for w in weights], out, *arguments, 0.5)
    own = weights[:, _ADAPTERS.clamp(min=0), 0].double()
    expected = 0.5 * torch.einsum("tk,strk->str", x.double(), own)
    expected[:, _ADAPTERS < 0] = 0
    tolerance = rounded(torch.float32, "sums of 200 in f32, in two or more parts", sums=16)
    trial.check("out", out, expected, tolerance)


@kernel_case(
    f"{_LORA}.lora_expand_op:lora_expand",
    kernels="_lora_expand_kernel",
    shapes="11 tokens, 3 adapters of rank 8, slices of 100 and 60, added to the output",
    dtypes=_HALVES,
)
def lora_expand(trial: Trial) -> None:
    x = trial.randn(2, 11, 8, dtype=torch.float32)
    weights = [trial.randn(3, 1, size, 8) for size in (100, 60)]
    before = trial.randn(11, 160)
    out = trial.put(before)
    arguments = _lora_metadata(trial)
    trial.wrapper(trial.put(x), [trial.put(w) for w in weights], out, *arguments, add_inputs=True)
    index = _ADAPTERS.clamp(min=0)
    parts = [
        torch.einsum("tr,tnr->tn", part.to(trial.dtype).double(), weight[index, 0].double())
        for part, weight in zip(x, weights, strict=True)
    ]
    product = torch.cat(parts, dim=1)
    product[_ADAPTERS < 0] = 0
    tolerance = rounded(trial.dtype, "the product and the sum are rounded", ulps=1, sums=0.5)
    trial.check("out", out, before.double() + product, tolerance)


@kernel_case(
    f"{_INVARIANT}:matmul_persistent",
    kernels="matmul_kernel_persistent",
    shapes="150 x 72 times 72 x 136, bias",
    dtypes=_HALVES,
)
def matmul_persistent(trial: Trial) -> None:
    a, b, bias = trial.randn(150, 72), trial.randn(72, 136), trial.randn(136)
    out = trial.wrapper(trial.put(a), trial.put(b), trial.put(bias))
    expected = a.double() @ b.double() + bias.double()
    trial.check("out", out, expected, multiplied(trial.dtype))


@kernel_case(
    f"{_INVARIANT}:bmm_batch_invariant",
    kernels="bmm_kernel",
    shapes="3 products of 37 x 72 times 72 x 40",
    dtypes=_HALVES,
)
def bmm(trial: Trial) -> None:
    a, b = trial.randn(3, 37, 72), trial.randn(3, 72, 40)
    out = trial.wrapper(trial.put(a), trial.put(b))
    trial.check("out", out, a.double() @ b.double(), multiplied(trial.dtype))


@kernel_case(
    f"{_INVARIANT}:log_softmax",
    kernels="_softmax_kernel",
    shapes="7 rows of 1500",
    dtypes=_FLOATS,
)
def log_softmax(trial: Trial) -> None:
    x = trial.randn(7, 1500, scale=3)
    expected = torch.log_softmax(x.double(), dim=1)
    tolerance = rounded(trial.dtype, "exp, log and sums in f32, rounded", ulps=1, sums=1)
    trial.check("out", trial.wrapper(trial.put(x)), expected, tolerance)


@kernel_case(
    f"{_INVARIANT}:softmax",
    kernels="_softmax_kernel",
    shapes="7 rows of 1500",
    dtypes=_FLOATS,
)
def softmax(trial: Trial) -> None:
    x = trial.randn(7, 1500, scale=3)
    ulps = 16 if trial.dtype == torch.float32 else 1
    reason = "exp of differences up to 20 in f32, rounded"
    tolerance = rounded(trial.dtype, reason, ulps=ulps, sums=0.01)
    trial.check("out", trial.wrapper(trial.put(x)), torch.softmax(x.double(), dim=1), tolerance)


@kernel_case(
    f"{_INVARIANT}:mean_dim",
    kernels="mean_kernel",
    shapes="5 x 1100 x 7 over the middle",
    dtypes=_FLOATS,
)
def mean(trial: Trial) -> None:
    x = trial.randn(5, 1100, 7)
    tolerance = rounded(trial.dtype, "sum of 1100 in f32, rounded", ulps=1, sums=8)
    trial.check("out", trial.wrapper(trial.put(x), 1), x.double().mean(dim=1), tolerance)


@kernel_case(
    f"{_INVARIANT}:rms_norm_batch_invariant",
    kernels="_rms_norm_kernel",
    shapes="7 rows of 1500",
    dtypes=_FLOATS,
)
def rms_norm(trial: Trial) -> None:
    x, weight = trial.randn(7, 1500), trial.randn(1500)
    out = trial.wrapper(trial.put(x), trial.put(weight))
    wide = x.double()
    expected = wide * torch.rsqrt(wide.square().mean(dim=1, keepdim=True) + 1e-6) * weight.double()
    tolerance = rounded(trial.dtype, "f32 sums; rounded before and after the weight", ulps=4)
    trial.check("out", out, expected, tolerance)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate the two halves of the last dimension against each other."""
    left, right = x.double().chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


@kernel_case(
    "vllm.model_executor.layers.rotary_embedding.mrope:triton_mrope",
    kernels="_triton_mrope_forward",
    shapes="11 tokens, 5 and 2 heads of 64, 48 of them rotated, sections of 8, 8, 8",
    dtypes=_FLOATS,
)
def mrope(trial: Trial) -> None:
    q, k = trial.randn(11, 5 * 64), trial.randn(11, 2 * 64)
    angles = trial.randn(3, 11, 24, dtype=torch.float32)
    cos, sin = angles.cos().to(trial.dtype), angles.sin().to(trial.dtype)
    rotated = trial.wrapper(
        *(trial.put(tensor) for tensor in (q, k, cos, sin)), [8, 8, 8], 64, 48, False, True
    )
    merged = [
        torch.cat([part[axis, :, 8 * axis : 8 * axis + 8] for axis in range(3)], dim=1).double()
        for part in (cos, sin)
    ]
    tolerance = rounded(trial.dtype, "a sum of two products, rounded", ulps=2, sums=1)
    for name, source, result in zip("qk", (q, k), rotated, strict=True):
        heads = source.reshape(11, -1, 64)
        turned = _rotate(heads[..., :48], merged[0].unsqueeze(1), merged[1].unsqueeze(1))
        expected = torch.cat((turned, heads[..., 48:].double()), dim=2).reshape(source.shape)
        trial.check(name, result, expected, tolerance)


@kernel_case(
    "vllm.vllm_flash_attn.ops.triton.rotary:apply_rotary",
    kernels="rotary_kernel",
    shapes="2 x 11 tokens, 3 heads of 64, 48 of them rotated",
    dtypes=_FLOATS,
)
def rotary(trial: Trial) -> None:
    x, angles = trial.randn(2, 11, 3, 64), trial.randn(20, 24, dtype=torch.float32)
    cos, sin = angles.cos().to(trial.dtype), angles.sin().to(trial.dtype)
    out = trial.wrapper(*(trial.put(tensor) for tensor in (x, cos, sin)), seqlen_offsets=4)
    own = [part[4:15, None].double() for part in (cos, sin)]
    expected = torch.cat((_rotate(x[..., :48], *own), x[..., 48:].double()), dim=3)
    tolerance = rounded(trial.dtype, "a sum of two products, rounded", ulps=1, sums=0.5)
    trial.check("out", out, expected, tolerance)


@kernel_case(
    "vllm.model_executor.layers.activation:swiglustep_and_mul_triton",
    kernels="_swiglustep_and_mul_kernel",
    shapes="7 rows of 2 x 1100, limit 1.5",
    dtypes=_FLOATS,
)
def swiglu_step(trial: Trial) -> None:
    x, out = trial.randn(7, 2200), trial.empty(7, 1100)
    trial.wrapper(out, trial.put(x), 1.5)
    gate, up = x.double().chunk(2, dim=1)
    expected = functional.silu(gate).clamp(max=1.5) * up.clamp(-1.5, 1.5)
    tolerance = rounded(trial.dtype, "exp in f32, rounded", ulps=2, sums=0.5)
    trial.check("out", out, expected, tolerance)


@kernel_case(
    "vllm.v1.kv_offload.cpu.swap_blocks_triton:swap_blocks_batch",
    kernels="_swap_blocks_kernel",
    shapes="20 blocks of 8 to 5000 bytes between pinned host memory and the device",
    dtypes=(torch.uint8,),
)
def swap_blocks(trial: Trial) -> None:
    source = trial.integers(0, 256, 20, 5000, dtype=torch.uint8).pin_memory()
    target = trial.integers(0, 256, 24, 5000, dtype=torch.uint8)
    sizes = trial.integers(1, 626, 20, dtype=torch.int64) * 8
    places = trial.permutation(24, dtype=torch.int64)[:20]
    result = trial.put(target)
    trial.wrapper(
        source.data_ptr() + 5000 * torch.arange(20),
        result.data_ptr() + 5000 * places,
        sizes,
        bytes_per_chunk=1024,
    )
    for row, place, size in zip(source, places.tolist(), sizes.tolist(), strict=True):
        target[place, :size] = row[:size]
    trial.check("blocks", result, target, EXACT)
