"""Which kernels a process launches, how often, in which shapes, and for how long."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from asmevo.capture.collector import Target
from asmevo.capture.control_block import MAX_GLOB_BYTES, MAX_SHAPES, State, Statistics
from asmevo.errors import TargetError

__all__ = ["KernelUse", "ShapeUse", "Usage", "count_launches", "exact_glob", "heaviest", "rank"]

_POLL_S = 0.02
_LAST_EVENTS_S = 0.1  # until the events of the last launches are read


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeUse:
    """A geometry that a kernel was launched with."""

    grid: tuple[int, int, int]  # in workgroups
    block: tuple[int, int, int]
    dynamic_lds_bytes: int
    launches: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "grid": list(self.grid),
            "block": list(self.block),
            "dynamic_lds_bytes": self.dynamic_lds_bytes,
            "launches": self.launches,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelUse:
    """A kernel while launches were counted."""

    name: str  # its beginning, where it is longer than 512 bytes
    launches: int  # on their own
    graph_launches: int  # as nodes of graphs
    timed: int  # launches with events around them
    mean_us: float | None  # of those
    shapes: tuple[ShapeUse, ...]  # by launches; the commonest few
    has_more_shapes: bool
    share_of_launches: float
    share_of_time: float | None  # None: never timed

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "kernel": self.name,
            "launches": self.launches,
            "graph_launches": self.graph_launches,
            "timed": self.timed,
            "mean_us": self.mean_us,
            "share_of_launches": self.share_of_launches,
            "share_of_time": self.share_of_time,
            "shapes": [shape.to_json() for shape in self.shapes],
            "has_more_shapes": self.has_more_shapes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """All kernels that a process launched in a while, the heaviest first."""

    kernels: tuple[KernelUse, ...]
    seconds: float
    graph_launches: int
    unknown_graph_launches: int  # of graphs made before, whose kernels nobody can tell

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "seconds": self.seconds,
            "graph_launches": self.graph_launches,
            "unknown_graph_launches": self.unknown_graph_launches,
            "kernels": [kernel.to_json() for kernel in self.kernels],
        }


def count_launches(target: Target, seconds: float) -> Usage:
    """Count for a while; the hooks are in afterwards and let everything pass.

    Raises:
        TargetError: The target ended meanwhile.
    """
    control = target.control
    target.hook()
    start = time.monotonic()
    control.set_state(State.COUNTING)
    target.start()
    while time.monotonic() - start < seconds:
        if not target.is_alive:
            raise TargetError(f"process {target.process.pid} ended while launches were counted")
        time.sleep(min(_POLL_S, seconds))
    counted = time.monotonic() - start
    time.sleep(_LAST_EVENTS_S)
    statistics = control.statistics()
    control.set_state(State.IDLE)
    return Usage(
        kernels=rank(statistics),
        seconds=counted,
        graph_launches=int(control.fields.graph_launches),
        unknown_graph_launches=int(control.fields.unknown_graph_launches),
    )


def rank(statistics: Iterable[tuple[str, Statistics]]) -> tuple[KernelUse, ...]:
    """What was counted of each kernel as shares of all, the heaviest first."""
    used = [(name, one) for name, one in statistics if one.launches + one.graph_launches]
    launches = sum(one.launches + one.graph_launches for _, one in used)
    times = {name: _estimate_ns(one) for name, one in used}
    total_ns = sum(time or 0 for time in times.values())
    kernels = [
        KernelUse(
            name=name,
            launches=int(one.launches),
            graph_launches=int(one.graph_launches),
            timed=int(one.samples),
            mean_us=one.sampled_ns / one.samples / 1000 if one.samples else None,
            shapes=_shapes(one),
            has_more_shapes=one.shape_count > MAX_SHAPES,
            share_of_launches=(one.launches + one.graph_launches) / launches,
            share_of_time=(times[name] or 0) / total_ns if one.samples and total_ns else None,
        )
        for name, one in used
    ]
    return tuple(sorted(kernels, key=_weight, reverse=True))


def _weight(kernel: KernelUse) -> tuple[float, float]:
    """By time, then by launches; a kernel that was never timed counts as none."""
    return (kernel.share_of_time or 0.0, kernel.share_of_launches)


def _estimate_ns(one: Statistics) -> float | None:
    if not one.samples:
        return None
    return float(one.sampled_ns / one.samples * (one.launches + one.graph_launches))


def _shapes(one: Statistics) -> tuple[ShapeUse, ...]:
    merged: dict[tuple[Any, ...], int] = {}
    for shape in one.shapes[: min(one.shape_count, MAX_SHAPES)]:
        key = (tuple(shape.grid), tuple(shape.block), int(shape.dynamic_lds_bytes))
        merged[key] = merged.get(key, 0) + int(shape.launches)
    found = (
        ShapeUse(grid=key[0], block=key[1], dynamic_lds_bytes=key[2], launches=launches)
        for key, launches in merged.items()
    )
    return tuple(sorted(found, key=lambda shape: -shape.launches))


def heaviest(usage: Usage, count: int, globs: Iterable[str]) -> tuple[str, ...]:
    """Globs that match the heaviest kernels, among those that `globs` match."""
    wanted = tuple(globs)
    names = (
        kernel.name
        for kernel in usage.kernels
        if any(fnmatch.fnmatchcase(kernel.name, glob) for glob in wanted)
    )
    return tuple(exact_glob(name) for name, _ in zip(names, range(count), strict=False))


def exact_glob(name: str) -> str:
    """A glob that matches just this name, or what begins with it where it is very long."""
    escaped = "".join(f"[{c}]" if c in "*?[" else c for c in name)
    if len(escaped.encode()) < MAX_GLOB_BYTES and len(name.encode()) < 512:
        return escaped
    cut = escaped.encode()[: MAX_GLOB_BYTES - 8].decode(errors="ignore")
    return cut.rpartition("[")[0] + "*" if "[" in cut[-3:] else cut + "*"
