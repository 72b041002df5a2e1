"""Where it is noted that the self-test of this version has passed on a GPU of this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import asmevo
from asmevo.files import write_whole
from asmevo.replay.device import Device, DeviceKind

__all__ = ["describe_proof", "find_proof", "proof_path", "write_proof"]


def proof_path(device: Device) -> Path:
    """The file that notes it."""
    root = os.environ.get("ASMEVO_CACHE")
    cache = Path(root) if root else Path.home() / ".cache" / "asmevo"
    return cache / f"self-test-{device.kind.value}-{device.ordinal}.json"


def write_proof(device: Device, name: str) -> None:
    """Note that it passed on the GPU of this name."""
    path = proof_path(device)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps({"device": name, "version": asmevo.__version__}).encode())


def find_proof(device: Device) -> str | None:
    """The GPU on which this version's self-test passed as this device; None when it never did."""
    try:
        proof = json.loads(proof_path(device).read_bytes()[:4096])
        is_current = proof["version"] == asmevo.__version__
        return str(proof["device"]) if is_current else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def describe_proof(device: Device) -> tuple[str, ...]:
    """What must be said of results on a real GPU."""
    if device.kind is not DeviceKind.HIP or find_proof(device) is not None:
        return ()
    return (
        "replay has not been proven on a real GPU yet, and not on this one: "
        f"asmevo doctor --device {device} does that in a minute",
    )
