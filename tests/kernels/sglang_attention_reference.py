"""Attention by its definition, in double precision."""

from __future__ import annotations

import torch

__all__ = ["attend", "causal_mask"]


def causal_mask(queries: int, keys: int) -> torch.Tensor:
    """True where a query sees a key; the last query sees all keys."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    scale: float,
    mask: torch.Tensor | None = None,
    logit_cap: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output [queries, heads, size] and log-sum-exp [queries, heads].

    Args:
        q: [queries, heads, size].
        k: [keys, key heads, size]; each key head serves the same number of query heads.
        v: [keys, key heads, value size].
        scale: Factor of the logits.
        mask: [queries, keys], true where a query sees a key.
        logit_cap: Bound that tanh puts on the logits; 0 for none.
    """
    group = q.shape[1] // k.shape[1]
    keys = k.double().repeat_interleave(group, dim=1)
    values = v.double().repeat_interleave(group, dim=1)
    logits = torch.einsum("qhd,khd->hqk", q.double(), keys) * scale
    if logit_cap:
        logits = logit_cap * torch.tanh(logits / logit_cap)
    if mask is not None:
        logits = logits.masked_fill(~mask, -torch.inf)
    out = torch.einsum("hqk,khd->qhd", torch.softmax(logits, dim=-1), values)
    return out, torch.logsumexp(logits, dim=-1).T
