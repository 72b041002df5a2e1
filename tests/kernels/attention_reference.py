"""Attention in float64, and paged key-value caches to call the kernels with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from kernel_trial import Trial

__all__ = ["PagedBatch", "attention", "attention_lse", "make_paged_batch"]


def _scores(
    query: torch.Tensor,
    key: torch.Tensor,
    *,
    scale: float,
    causal: bool = True,
    window: int = 0,
    softcap: float = 0.0,
    slopes: torch.Tensor | None = None,
) -> torch.Tensor:
    """Scores [heads, queries, keys]; masked ones are -inf. The last query sees the last key."""
    groups = query.shape[1] // key.shape[1]
    keys = key.double().repeat_interleave(groups, dim=1)
    scores = torch.einsum("qhd,khd->hqk", query.double(), keys) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    distance = (
        torch.arange(len(key))[None, :] - torch.arange(len(key) - len(query), len(key))[:, None]
    )
    if slopes is not None:
        scores = scores + slopes.double()[:, None, None] * distance
    if causal:
        scores = scores.masked_fill(distance > 0, -torch.inf)
    if window:
        scores = scores.masked_fill(distance <= -window, -torch.inf)
    return scores


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scale: float,
    causal: bool = True,
    window: int = 0,
    softcap: float = 0.0,
    slopes: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Softmax attention of one sequence; [tokens, heads, size] each, heads of K and V shared."""
    scores = _scores(
        query, key, scale=scale, causal=causal, window=window, softcap=softcap, slopes=slopes
    )
    if sinks is not None:
        sink = sinks.double()[:, None, None].expand(-1, len(query), 1)
        shares = torch.softmax(torch.cat((scores, sink), dim=2), dim=2)[..., :-1]
    else:
        shares = torch.softmax(scores, dim=2)
    values = value.double().repeat_interleave(query.shape[1] // value.shape[1], dim=1)
    return torch.einsum("hqk,khd->qhd", shares, values)


def attention_lse(query: torch.Tensor, key: torch.Tensor, *, scale: float) -> torch.Tensor:
    """Logarithm of the sum of exponentials, [queries, heads]."""
    return torch.logsumexp(_scores(query, key, scale=scale), dim=2).transpose(0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedBatch:
    """Sequences whose keys and values lie in pages in random order."""

    queries: tuple[torch.Tensor, ...]
    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    key_cache: torch.Tensor
    """[pages, page size, heads, head size]; what no sequence uses is NaN."""
    value_cache: torch.Tensor
    block_table: torch.Tensor

    @property
    def query(self) -> torch.Tensor:
        """All queries, one sequence after the other."""
        return torch.cat(self.queries)

    @property
    def query_starts(self) -> torch.Tensor:
        """Where each sequence starts in `query`, and the end."""
        return torch.tensor([0, *(len(q) for q in self.queries)]).cumsum(0).to(torch.int32)

    @property
    def lengths(self) -> torch.Tensor:
        """Keys of each sequence."""
        return torch.tensor([len(k) for k in self.keys], dtype=torch.int32)

    def attend(self, **options: object) -> torch.Tensor:
        """The reference for all sequences."""
        results = [
            attention(q, k, v, **options)  # type: ignore[arg-type]
            for q, k, v in zip(self.queries, self.keys, self.values, strict=True)
        ]
        return torch.cat(results)


def make_paged_batch(
    trial: Trial,
    sequences: Sequence[tuple[int, int]],
    *,
    heads: tuple[int, int],
    sizes: tuple[int, int],
    page: int,
    cache_dtype: torch.dtype | None = None,
    spare: float = float("nan"),
) -> PagedBatch:
    """Random sequences of (queries, keys), of `heads` (queries', keys') and `sizes` (K's, V's)."""
    cache_dtype = trial.dtype if cache_dtype is None else cache_dtype
    columns = max(-(-keys // page) for _, keys in sequences)
    pages = len(sequences) * columns + 3
    order = trial.permutation(pages)
    shape = (pages, page, heads[1])
    key_cache = torch.full((*shape, sizes[0]), spare).to(cache_dtype)
    value_cache = torch.full((*shape, sizes[1]), spare).to(cache_dtype)
    table = order[: len(sequences) * columns].reshape(len(sequences), columns)
    queries, keys, values = [], [], []
    for row, (count, length) in zip(table, sequences, strict=True):
        queries.append(trial.randn(count, heads[0], sizes[0]))
        keys.append(trial.randn(length, heads[1], sizes[0], dtype=cache_dtype))
        values.append(trial.randn(length, heads[1], sizes[1], dtype=cache_dtype))
        for token in range(length):
            place = (int(row[token // page]), token % page)
            key_cache[place], value_cache[place] = keys[-1][token], values[-1][token]
    return PagedBatch(
        queries=tuple(queries),
        keys=tuple(keys),
        values=tuple(values),
        key_cache=key_cache,
        value_cache=value_cache,
        block_table=table.contiguous(),
    )
