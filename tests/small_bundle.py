"""Writes bundles of small dispatches, as a capture would have made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asmevo.capture.bundle import RegionContent, write_bundle
from asmevo.capture.manifest import CaptureFacts, DispatchRecord, PointerReference, RegionKind

Dimensions = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A region that the kernel argument of the same place in the list points to."""

    address: int
    before: bytes
    after: bytes | None = None
    kind: RegionKind = RegionKind.DEVICE
    pointer_offset: int = 0
    symbol: str | None = None
    """Of a module global, which is no argument; such buffers stand last."""


def write_small_bundle(
    path: Path,
    *,
    kernel: str,
    code_object: bytes,
    buffers: Sequence[Buffer],
    scalars: bytes = b"",
    grid: Dimensions = (1, 1, 1),
    block: Dimensions = (64, 1, 1),
    arch: str = "gfx942",
    is_cooperative: bool = False,
) -> Path:
    """Write a bundle whose arguments are pointers to `buffers`, then `scalars`; its path."""
    pointers = [one.address + one.pointer_offset for one in buffers if one.symbol is None]
    kernarg = b"".join(pointer.to_bytes(8, "little") for pointer in pointers) + scalars
    write_bundle(
        path,
        dispatch=DispatchRecord(
            kernel=kernel,
            arch=arch,
            launch_function="hipModuleLaunchKernel",
            grid=grid,
            block=block,
            dynamic_lds_bytes=0,
            kernarg_bytes=len(kernarg),
            stream=0,
            is_cooperative=is_cooperative,
        ),
        capture=CaptureFacts(
            tool_version="0.1.0",
            pid=7,
            command=("python", "serve.py"),
            time_utc="2026-11-29T12:00:00Z",
            ordinal=0,
            pause_ms=0.5,
        ),
        code_object=code_object,
        kernarg=kernarg,
        regions=[_region(index, buffer) for index, buffer in enumerate(buffers)],
    )
    return path


def _region(index: int, buffer: Buffer) -> RegionContent:
    after = buffer.after
    pointer = PointerReference(kernarg_offset=8 * index, region_offset=buffer.pointer_offset)
    return RegionContent(
        address=buffer.address,
        size_bytes=len(buffer.before),
        kind=buffer.kind,
        pointers=(pointer,) if buffer.symbol is None else (),
        symbol=buffer.symbol,
        before=lambda: [buffer.before],
        after=None if after is None else lambda: [after],
    )
