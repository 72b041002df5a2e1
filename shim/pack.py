"""Makes a swap folder out of optimizer runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asmevo.codeobject.code_object import CodeObject
from asmevo.errors import CodeObjectError, UsageError
from asmevo.files import write_whole
from asmevo.shim.swap_manifest import SwapEntry, write_manifest

__all__ = ["pack"]

_MAX_OBJECT_BYTES = 1 << 30
_MAX_SUMMARY_BYTES = 64 << 20


def pack(run_folders: Sequence[Path], output: Path) -> tuple[SwapEntry, ...]:
    """Write the optimized object of each run and the manifest into the folder `output`.

    Args:
        run_folders: Folders of `asmevo optimize`: `k0.hsaco`, `best.hsaco`, `summary.json`.
        output: The swap folder; made if it does not exist.

    Raises:
        UsageError: A run has no improvement, is incomplete, or its objects do not fit together.
    """
    entries: dict[str, SwapEntry] = {}
    objects: dict[str, bytes] = {}
    for folder in run_folders:
        k0, best = _read_run(folder)
        if k0.sha256 in entries:
            raise UsageError(f"{folder}: another run optimized the same code object already")
        entry = SwapEntry(
            k0_sha256=k0.sha256,
            k0_size=len(k0.data),
            optimized_sha256=best.sha256,
            optimized_size=len(best.data),
            arch=best.target,
            file_name=f"{best.sha256[:32]}.hsaco",
        )
        entries[k0.sha256] = entry
        objects[entry.file_name] = best.data
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{output} cannot be made: {error.strerror}") from error
    for name, data in objects.items():
        write_whole(output / name, data)
    write_manifest(output, tuple(entries.values()))  # last: it makes the folder valid
    return tuple(entries.values())


def _read_run(folder: Path) -> tuple[CodeObject, CodeObject]:
    summary = _read_summary(folder / "summary.json")
    if summary.get("has_improved") is not True:
        raise UsageError(f"{folder}: the run found no improvement")
    k0_data, best_data = _read_bytes(folder / "k0.hsaco"), _read_bytes(folder / "best.hsaco")
    for name, data in (("k0", k0_data), ("best", best_data)):
        if summary.get(f"{name}_sha256") != hashlib.sha256(data).hexdigest():
            raise UsageError(f"{folder}: {name}.hsaco is not the object of summary.json")
    k0, best = _parse(folder / "k0.hsaco", k0_data), _parse(folder / "best.hsaco", best_data)
    if best.data == k0.data:
        raise UsageError(f"{folder}: the run found no improvement")
    if best.target_id != k0.target_id or best.version != k0.version:
        raise UsageError(f"{folder}: best.hsaco is for {best.target_id}, K0 for {k0.target_id}")
    names = {kernel.name for kernel in k0.kernels}
    if {kernel.name for kernel in best.kernels} != names:
        raise UsageError(f"{folder}: best.hsaco does not have the kernels of K0")
    return k0, best


def _read_summary(path: Path) -> dict[str, Any]:
    """A run without a readable summary has not ended, or is no run."""
    try:
        with path.open("rb") as file:
            summary = json.loads(file.read(_MAX_SUMMARY_BYTES))
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", hint="give the folders that asmevo optimize wrote"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: {error}") from error
    if not isinstance(summary, dict):
        raise UsageError(f"{path} is damaged: not an object")
    return summary


def _read_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_OBJECT_BYTES)
    except FileNotFoundError as error:
        raise UsageError(f"{path.parent}: the run has no {path.name}") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _parse(path: Path, data: bytes) -> CodeObject:
    try:
        return CodeObject.read(data)
    except CodeObjectError as error:
        raise UsageError(f"{path}: {error}") from error
