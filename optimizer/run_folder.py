"""The run folder: what a search leaves on disk, so that it can be killed at any moment and goes on.

`lineage.json` is the commit point: a node counts once it stands there. `best.hsaco`, `best.s` and
`summary.json` are derived from it and written again when they lag behind. `attempts.jsonl` only
grows.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from asmevo.codeobject.code_object import content_hash
from asmevo.errors import UsageError
from asmevo.files import read_bounded, write_whole
from asmevo.optimizer.gate.cost import Cost, CostUnit
from asmevo.verdict import Status, Verdict

__all__ = ["Attempt", "Node", "RunFolder", "RunIdentity"]

# Bump when a field of lineage.json, attempts.jsonl or summary.json changes its name or meaning.
_SCHEMA_VERSION = 1
_LIMIT_BYTES = 256 << 20
# What reading JSON of another shape than ours raises.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """What a run is about; a folder goes on only with the same."""

    k0_sha256: str
    kernel: str
    arch: str
    device: str
    bundles: tuple[str, ...]
    """Content hash of each bundle's manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One committed object."""

    sha256: str
    parent: str | None
    attempt: str | None
    """Id of the attempt that it came from; None for K0."""
    mutator: str | None
    costs: tuple[Cost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One judged candidate, as a line of `attempts.jsonl`."""

    id: str
    """Hash of parent and edits: the same proposal is never judged twice."""
    parent: str
    mutator: str
    sites: tuple[int, ...]
    """Instruction ids in the parent's recovered listing."""
    hypothesis: str
    verdict: Verdict
    costs: tuple[float, ...]
    """For each bundle; empty unless equivalent on all."""
    cost_unit: str
    speedup: float | None
    """Over the best at that time."""
    sha256: str | None
    seconds: float


class RunFolder:
    """A run folder that this process owns for writing."""

    def __init__(self, path: Path, identity: RunIdentity) -> None:
        """Create the folder, or take up the run in it.

        Raises:
            UsageError: the folder belongs to another run, or is damaged.
        """
        self.path = path
        self.identity = identity
        self.nodes: list[Node] = []
        self.attempts: dict[str, Attempt] = {}
        if not self._lineage.exists() and not _may_become_run_folder(path):
            raise UsageError(
                f"{path} is not empty and no run folder", hint="name another -o RUNDIR"
            )
        try:
            (path / "objects").mkdir(parents=True, exist_ok=True)
            self._log = (path / "attempts.jsonl").open("ab")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from error
        try:
            self._lock()
            if self._lineage.exists():
                self._load()
        except BaseException:
            self._log.close()
            raise

    def _lock(self) -> None:
        """Before anything is read: another process may be writing."""
        try:
            fcntl.flock(self._log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"another process works in {self.path}") from error

    @property
    def _lineage(self) -> Path:
        return self.path / "lineage.json"

    @property
    def best(self) -> Node:
        """The newest node."""
        return self.nodes[-1]

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def object_of(self, node: Node) -> bytes:
        """The code object of a node.

        Raises:
            UsageError: it is missing or not what was committed.
        """
        path = self.path / "objects" / f"{node.sha256}.hsaco"
        data = path.read_bytes() if path.is_file() else b""
        if content_hash(data) != node.sha256:
            raise UsageError(f"{path} is missing or damaged", hint="start with another RUNDIR")
        return data

    def commit(self, node: Node, data: bytes, assembly: str) -> None:
        """Add a node; from then on it is the best."""
        write_whole(self.path / "objects" / f"{node.sha256}.hsaco", data)
        if node.parent is None:
            write_whole(self.path / "k0.hsaco", data)
        self.nodes.append(node)
        content = {
            "schema_version": _SCHEMA_VERSION,
            "identity": asdict(self.identity),
            "nodes": [asdict(one) for one in self.nodes],
        }
        self._write_json("lineage.json", content)
        self.write_best(data, assembly)

    def write_best(self, data: bytes, assembly: str) -> None:
        """Write the best object and its assembly."""
        write_whole(self.path / "best.hsaco", data)
        write_whole(self.path / "best.s", assembly.encode())

    def append(self, attempt: Attempt) -> None:
        """Log an attempt; on disk when this returns."""
        self.attempts[attempt.id] = attempt
        self._log.write(json.dumps(asdict(attempt), allow_nan=False).encode() + b"\n")
        self._log.flush()
        os.fsync(self._log.fileno())

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write `summary.json`."""
        self._write_json("summary.json", {"schema_version": _SCHEMA_VERSION, **summary})

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        text = json.dumps(content, indent=1, allow_nan=False)
        write_whole(self.path / name, text.encode() + b"\n")

    def _load(self) -> None:
        try:
            content = json.loads(read_bounded(self._lineage, _LIMIT_BYTES))
            if content["schema_version"] != _SCHEMA_VERSION:
                raise UsageError(f"{self.path} was written by another version of asmevo")
            identity = content["identity"]
            known = RunIdentity(**{**identity, "bundles": tuple(identity["bundles"])})
            self.nodes = [_read_node(node) for node in content["nodes"]]
        except _DAMAGE as error:
            raise UsageError(f"{self._lineage} is damaged: {error}") from error
        if known != self.identity:
            raise UsageError(
                f"{self.path} holds a run of other bundles or another device",
                hint="name another -o RUNDIR",
            )
        if not self.nodes:
            raise UsageError(f"{self._lineage} has no nodes")
        if any(len(node.costs) != len(self.identity.bundles) for node in self.nodes):
            raise UsageError(f"{self._lineage} is damaged: a node without a cost for each bundle")
        self._load_attempts()

    def _load_attempts(self) -> None:
        """Read the log; a last line that a kill cut short is taken back."""
        path = self.path / "attempts.jsonl"
        content = read_bounded(path, _LIMIT_BYTES)
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) != len(content):
            os.truncate(path, len(whole))
        for line in whole.splitlines():
            try:
                attempt = _read_attempt(json.loads(line))
                self.attempts[attempt.id] = attempt
            except _DAMAGE as error:
                raise UsageError(f"{path} is damaged: {error}") from error


def _may_become_run_folder(path: Path) -> bool:
    """True for a new or empty folder, and for one whose run was killed before its first commit."""
    if not path.exists():
        return True
    if not path.is_dir():
        return False
    names = {one.name for one in path.iterdir() if not one.name.endswith(".partial")}
    return names <= {"objects", "attempts.jsonl", "k0.hsaco"}


def _read_node(content: dict[str, Any]) -> Node:
    costs: Sequence[dict[str, Any]] = content.pop("costs")
    return Node(
        **content,
        costs=tuple(_read_cost(cost) for cost in costs),
    )


def _read_cost(content: dict[str, Any]) -> Cost:
    cost = Cost(**{**content, "unit": CostUnit(content["unit"])})
    if not (math.isfinite(cost.value) and cost.value > 0 and math.isfinite(cost.variation)):
        raise ValueError("a cost is not a positive number")
    return cost


def _read_attempt(content: dict[str, Any]) -> Attempt:
    verdict = content.pop("verdict")
    sites, costs = tuple(content.pop("sites")), tuple(content.pop("costs"))
    return Attempt(
        **content,
        sites=sites,
        costs=costs,
        verdict=Verdict(status=Status(verdict["status"]), reasons=tuple(verdict["reasons"])),
    )
