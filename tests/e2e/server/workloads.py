"""What a request means: the inputs that a seed stands for, and torch's answer for them.

Server and client both build the inputs from here, so that a request carries only a seed and sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

__all__ = ["EPSILON", "SOFTMAX_SCALE", "WORKLOADS", "Tensors", "Workload"]

Tensors = dict[str, torch.Tensor]
EPSILON = 1e-5
SOFTMAX_SCALE = 0.125
_SIZE_LIMIT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One kernel that the server offers."""

    sizes: Mapping[str, int]
    """Names of the sizes of a request, and defaults that the emulated device does quickly."""
    make: Callable[[torch.Generator, Mapping[str, int]], Tensors]
    reference: Callable[[Tensors], Tensors]
    """Outputs in float32 by torch, by the names that the server answers with."""
    tolerance: float
    """Largest difference, relative to the larger of 1 and the reference's magnitude."""

    def resolve_sizes(self, asked: Mapping[str, object]) -> dict[str, int]:
        """The sizes of a request: asked for or default; ValueError for what is not served."""
        unknown = set(asked) - set(self.sizes)
        if unknown:
            raise ValueError(
                f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(self.sizes)}"
            )
        sizes = dict(self.sizes)
        for name, value in asked.items():
            if type(value) is not int or not 1 <= value <= _SIZE_LIMIT:
                raise ValueError(f"{name} must be an integer from 1 to {_SIZE_LIMIT}")
            sizes[name] = value
        return sizes

    def make_inputs(self, seed: int, asked: Mapping[str, object]) -> Tensors:
        """The inputs of a request, the same for the same seed and sizes."""
        generator = torch.Generator().manual_seed(seed)
        return self.make(generator, self.resolve_sizes(asked))


def _make_softmax(generator: torch.Generator, sizes: Mapping[str, int]) -> Tensors:
    shape = (sizes["rows"], sizes["columns"])
    return {"scores": torch.randn(shape, generator=generator) * 8}


def _softmax_reference(inputs: Tensors) -> Tensors:
    return {"out": torch.softmax(inputs["scores"] * SOFTMAX_SCALE, dim=1)}


def _make_add_rms_norm(generator: torch.Generator, sizes: Mapping[str, int]) -> Tensors:
    shape = (sizes["rows"], sizes["columns"])
    return {
        "x": torch.randn(shape, generator=generator).bfloat16(),
        "residual": torch.randn(shape, generator=generator).bfloat16(),
        "weight": 1 + 0.1 * torch.randn(sizes["columns"], generator=generator),
    }


def _add_rms_norm_reference(inputs: Tensors) -> Tensors:
    total = inputs["x"].float() + inputs["residual"].float()
    inverse = torch.rsqrt(total.square().mean(dim=1, keepdim=True) + EPSILON)
    return {"out": total * inverse * inputs["weight"], "residual": total}


def _make_matmul(generator: torch.Generator, sizes: Mapping[str, int]) -> Tensors:
    m, n, k = (sizes[name] for name in ("m", "n", "k"))
    return {
        "a": torch.randn((m, k), generator=generator).bfloat16(),
        "b": (torch.randn((k, n), generator=generator) / k**0.5).bfloat16(),
    }


def _matmul_reference(inputs: Tensors) -> Tensors:
    return {"out": inputs["a"].float() @ inputs["b"].float()}


def _make_merge_attn_states(generator: torch.Generator, sizes: Mapping[str, int]) -> Tensors:
    tokens, heads, head_size = (sizes[name] for name in ("tokens", "heads", "head_size"))

    def states() -> torch.Tensor:
        return torch.randn((tokens, heads, head_size), generator=generator).bfloat16()

    def lse() -> torch.Tensor:
        return torch.randn((heads, tokens), generator=generator) * 4

    return {
        "prefix_output": states(),
        "prefix_lse": lse(),
        "suffix_output": states(),
        "suffix_lse": lse(),
    }


def _merge_attn_states_reference(inputs: Tensors) -> Tensors:
    lse = torch.stack((inputs["prefix_lse"], inputs["suffix_lse"]))
    share = torch.softmax(lse, dim=0).transpose(1, 2).unsqueeze(-1)
    states = torch.stack((inputs["prefix_output"], inputs["suffix_output"])).float()
    return {"out": (states * share).sum(dim=0), "lse": torch.logsumexp(lse, dim=0)}


WORKLOADS: Mapping[str, Workload] = {
    "softmax": Workload(
        sizes={"rows": 32, "columns": 200},
        make=_make_softmax,
        reference=_softmax_reference,
        tolerance=1e-6,
    ),
    "rms_norm": Workload(
        sizes={"rows": 16, "columns": 512},
        make=_make_add_rms_norm,
        reference=_add_rms_norm_reference,
        tolerance=1 / 128,
    ),
    "matmul": Workload(
        sizes={"m": 64, "n": 128, "k": 128},
        make=_make_matmul,
        reference=_matmul_reference,
        tolerance=1 / 128,
    ),
    "merge_attn_states": Workload(
        sizes={"tokens": 8, "heads": 4, "head_size": 64},
        make=_make_merge_attn_states,
        reference=_merge_attn_states_reference,
        tolerance=1 / 128,
    ),
}
