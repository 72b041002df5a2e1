"""Manifests of version 1, read as version 2: what they did not say gets its neutral value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from asmevo.errors import BundleError

__all__ = ["upgrade"]

_COOPERATIVE = "hipModuleLaunchCooperativeKernel"
_REGION: dict[str, Any] = {
    "coherence": "unknown",
    "symbol": None,
    "allocation": None,
    "memory_pointers": [],
}
_CAPTURE: dict[str, Any] = {"policy": "allocation", "device": 0, "is_redacted": False}


def upgrade(data: dict[str, Any]) -> dict[str, Any]:
    """The same manifest with the keys of version 2; wrong types are left to who reads it.

    Raises:
        BundleError: It has keys that version 1 did not have.
    """
    dispatch = data.get("dispatch")
    is_cooperative = isinstance(dispatch, dict) and dispatch.get("launch_function") == _COOPERATIVE
    upgraded = {
        **data,
        "schema_version": 2,
        "dispatch": _with(dispatch, {"is_cooperative": is_cooperative, "graph_node": None}),
        "capture": _with(data.get("capture"), _CAPTURE),
    }
    for key in ("code_object", "kernarg"):
        upgraded[key] = _upgrade_entry(data.get(key))
    regions = data.get("regions")
    if isinstance(regions, list):
        upgraded["regions"] = list(_upgrade_regions(regions))
    return {key: value for key, value in upgraded.items() if key in data}


def _upgrade_regions(regions: list[Any]) -> Iterator[Any]:
    for region in regions:
        item = _with(region, _REGION)
        if isinstance(item, dict):
            for key in ("before", "after"):
                if key in item:
                    item[key] = _upgrade_entry(item[key])
        yield item


def _upgrade_entry(entry: Any) -> Any:
    return _with(entry, {"storage": "inline"})


def _with(data: Any, added: dict[str, Any]) -> Any:
    if not isinstance(data, dict):
        return data
    if known := sorted(set(data) & set(added)):
        raise BundleError(f"manifest: unknown key {known[0]!r} in version 1")
    return {**data, **added}
