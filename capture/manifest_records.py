"""The records of a bundle's manifest that say what was launched and where it was captured.

Every record refuses unknown and missing keys, wrong types and values out of bounds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from asmevo.capture.manifest_regions import MAX_KERNARG_BYTES, MAX_NAME_BYTES
from asmevo.capture.record_fields import Fields
from asmevo.errors import BundleError

__all__ = ["CaptureFacts", "DispatchRecord", "Policy"]

_ARCH = re.compile(r"gfx[0-9a-f]{3,5}(?::[a-z0-9]+[+-])*")


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRecord:
    """One kernel launch as the program asked for it."""

    kernel: str
    arch: str
    launch_function: str
    grid: tuple[int, int, int]  # in workgroups
    block: tuple[int, int, int]
    dynamic_lds_bytes: int
    kernarg_bytes: int  # explicit arguments only; the runtime rebuilds the hidden ones
    stream: int  # ordinal among the streams seen by this capture; 0 is the null stream
    is_cooperative: bool = False  # all workgroups are resident at one time
    graph_node: int | None = None  # place among the kernel nodes of the graph that launched it

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "kernel": self.kernel,
            "arch": self.arch,
            "launch_function": self.launch_function,
            "grid": list(self.grid),
            "block": list(self.block),
            "dynamic_lds_bytes": self.dynamic_lds_bytes,
            "kernarg_bytes": self.kernarg_bytes,
            "stream": self.stream,
            "is_cooperative": self.is_cooperative,
            "graph_node": self.graph_node,
        }

    @classmethod
    def from_json(cls, data: object) -> DispatchRecord:
        """Read and check."""
        fields = Fields(data, "dispatch", tuple(cls.__dataclass_fields__))
        grid = fields.integers("grid", 1, (1 << 32) - 1)
        block = fields.integers("block", 1, 1 << 16)
        if len(grid) != 3 or len(block) != 3:
            raise BundleError("manifest: dispatch: grid and block need three numbers each")
        return cls(
            kernel=fields.text("kernel", limit_bytes=MAX_NAME_BYTES),
            arch=fields.text("arch", pattern=_ARCH),
            launch_function=fields.text("launch_function", limit_bytes=128),
            grid=(grid[0], grid[1], grid[2]),
            block=(block[0], block[1], block[2]),
            dynamic_lds_bytes=fields.integer("dynamic_lds_bytes", 0, 1 << 20),
            kernarg_bytes=fields.integer("kernarg_bytes", 0, MAX_KERNARG_BYTES),
            stream=fields.integer("stream", 0, 1 << 32),
            is_cooperative=fields.flag("is_cooperative"),
            graph_node=(
                None
                if fields.value("graph_node") is None
                else fields.integer("graph_node", 0, 1 << 32)
            ),
        )


class Policy(StrEnum):
    """How much of the memory that a dispatch's pointers lead to is in a bundle."""

    TOUCHED = "touched"  # the pages that it reads and writes
    WINDOW = "window"  # so many bytes around where each pointer points
    ALLOCATION = "allocation"  # the whole of each allocation


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureFacts:
    """Where a bundle comes from."""

    tool_version: str
    pid: int
    command: tuple[str, ...]
    time_utc: str
    ordinal: int  # which dispatch of this kernel the capture took, from 0
    pause_ms: float  # how long the launching thread was held for the copies
    policy: Policy = Policy.ALLOCATION
    device: int = 0  # ordinal in the process
    is_redacted: bool = False  # contents are synthetic: not what the program had

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "tool_version": self.tool_version,
            "pid": self.pid,
            "command": list(self.command),
            "time_utc": self.time_utc,
            "ordinal": self.ordinal,
            "pause_ms": self.pause_ms,
            "policy": str(self.policy),
            "device": self.device,
            "is_redacted": self.is_redacted,
        }

    @classmethod
    def from_json(cls, data: object) -> CaptureFacts:
        """Read and check."""
        fields = Fields(data, "capture", tuple(cls.__dataclass_fields__))
        return cls(
            tool_version=fields.text("tool_version", limit_bytes=64),
            pid=fields.integer("pid", 1, 1 << 31),
            command=fields.texts("command", count=1 << 12, limit_bytes=1 << 17),
            time_utc=fields.text("time_utc", limit_bytes=64),
            ordinal=fields.integer("ordinal", 0, 1 << 32),
            pause_ms=fields.number("pause_ms"),
            policy=Policy(fields.choice("policy", tuple(Policy))),
            device=fields.integer("device", 0, 1 << 16),
            is_redacted=fields.flag("is_redacted"),
        )
