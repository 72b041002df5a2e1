"""What leaves a run: the best object that also does what K0 does on bundles the search never saw.

A search that judges on a few bundles finds what is right on them. Bundles that are held out from
it, with other shapes, show whether an object is right because it does the same, or because of the
shapes that it was tried with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asmevo.errors import GateError
from asmevo.files import write_whole
from asmevo.optimizer.gate.judge import Replayer
from asmevo.optimizer.run_folder import Node, RunFolder

__all__ = ["Release", "choose_release"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rejection:
    sha256: str
    bundle: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The node that is released, and the better ones that failed on a held-out bundle."""

    node: Node
    bundles: tuple[str, ...]
    """Paths, or what is varied in one of the captured bundles."""
    rejected: tuple[_Rejection, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "bundles": list(self.bundles),
            "rejected": [
                {
                    "sha256": one.sha256,
                    "bundle": one.bundle,
                    "status": one.status,
                    "reason": one.reason,
                }
                for one in self.rejected
            ],
        }


def choose_release(
    folder: RunFolder, held_out: Sequence[tuple[str, Replayer]], scratch: Path
) -> Release:
    """The newest committed object that passes on all held-out bundles; K0 if none does.

    Raises:
        GateError: K0 itself fails on one.
    """
    bundles = tuple(name for name, _ in held_out)
    for name, replayer in held_out:
        verdict = replayer.k0.verdict
        if not verdict.has_passed:
            reason = "; ".join(verdict.reasons[:1]) or verdict.status
            raise GateError(f"K0 itself fails on the held-out bundle {name}: {reason}")
    rejected: list[_Rejection] = []
    for node in reversed(folder.nodes[1:]):
        rejection = _find_rejection(folder, node, held_out, scratch)
        if rejection is None:
            return Release(node=node, bundles=bundles, rejected=tuple(rejected))
        rejected.append(rejection)
    return Release(node=folder.nodes[0], bundles=bundles, rejected=tuple(rejected))


def _find_rejection(
    folder: RunFolder, node: Node, held_out: Sequence[tuple[str, Replayer]], scratch: Path
) -> _Rejection | None:
    path = scratch / f"{node.sha256}.hsaco"
    write_whole(path, folder.object_of(node))
    for bundle, replayer in held_out:
        verdict = replayer.run(path).verdict
        if not verdict.has_passed:
            return _Rejection(
                sha256=node.sha256,
                bundle=bundle,
                status=verdict.status.value,
                reason=verdict.reasons[0] if verdict.reasons else "",
            )
    return None
