"""One optimisation run: bundles in, run folder out."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asmevo.capture.bundle import open_bundle
from asmevo.codeobject.code_object import CodeObject, content_hash
from asmevo.codeobject.open_listing import open_listing
from asmevo.errors import ReplayError, UsageError
from asmevo.optimizer.gate.cost import CostUnit, compare_costs
from asmevo.optimizer.gate.judge import Gate, Replayer
from asmevo.optimizer.release import Release, choose_release
from asmevo.optimizer.run_folder import RunFolder, RunIdentity
from asmevo.optimizer.search import Budget, Progress, Search
from asmevo.replay.device import Device
from asmevo.replay.engine import ReplaySession
from asmevo.replay.variation import write_variants
from asmevo.verdict import Status

__all__ = ["BundleSet", "ReplayerFactory", "optimize", "read_bundles"]

ReplayerFactory = Callable[[Path], Replayer]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSet:
    """Bundles of one kernel of one code object."""

    paths: tuple[Path, ...]
    code_object: bytes
    kernel: str
    arch: str
    hashes: tuple[str, ...]
    """Of each manifest, which names the hash of every entry."""


def read_bundles(paths: Sequence[Path]) -> BundleSet:
    """Read the manifests and the code object.

    Raises:
        BundleError: a bundle cannot be read.
        UsageError: they hold different code objects or kernels.
    """
    found: dict[tuple[str, str, str], bytes] = {}
    hashes = []
    for path in paths:
        with open_bundle(path) as bundle:
            manifest = bundle.manifest
            key = (manifest.code_object.sha256, manifest.dispatch.kernel, manifest.dispatch.arch)
            found.setdefault(key, bundle.code_object())
        text = json.dumps(manifest.to_json(), sort_keys=True)
        hashes.append(hashlib.sha256(text.encode()).hexdigest())
    if len(found) != 1:
        what = "no bundle" if not found else "bundles of different code objects or kernels"
        raise UsageError(what, hint="give bundles of one kernel; optimize others in another run")
    (_, kernel, arch), code_object = next(iter(found.items()))
    return BundleSet(
        paths=tuple(paths),
        code_object=code_object,
        kernel=kernel,
        arch=arch,
        hashes=tuple(hashes),
    )


def optimize(
    bundles: BundleSet,
    output: Path,
    *,
    device: Device,
    budget: Budget,
    held_out: Sequence[Path] = (),
    vary: int = 0,
    timeout_s: float = 60.0,
    progress: Progress | None = None,
    make_replayer: ReplayerFactory | None = None,
) -> dict[str, Any]:
    """Search, and give the summary that `summary.json` holds.

    `held_out` are bundles of the same kernel that the search does not see: only what passes on them
    as well is released as the best. So are at most `vary` variations of each of `bundles`.

    Raises:
        UsageError: `output` holds another run, or a held-out bundle is of another kernel.
        GateError: K0 does not reproduce a bundle's golden output.
    """
    if held_out:
        read_bundles([*bundles.paths, *held_out])
    k0 = CodeObject.read(bundles.code_object)
    identity = RunIdentity(
        k0_sha256=content_hash(bundles.code_object),
        kernel=bundles.kernel,
        arch=bundles.arch,
        device=str(device),
        bundles=bundles.hashes,
    )
    with ExitStack() as stack:
        folder = RunFolder(output, identity)
        stack.callback(folder.close)

        def open_replayer(path: Path) -> Replayer:
            if make_replayer is not None:
                return make_replayer(path)
            return stack.enter_context(ReplaySession(path, device=device, timeout_s=timeout_s))

        replayers = [open_replayer(path) for path in bundles.paths]
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="asmevo-optimize-")))
        gate = Gate(k0=k0, replayers=replayers, folder=scratch)
        search = Search(folder=folder, gate=gate, budget=budget, progress=progress)
        ended = search.run(bundles.code_object)
        unseen = [(str(path), open_replayer(path)) for path in held_out]
        unseen += _vary(bundles, vary, open_replayer, scratch)
        release = choose_release(folder, unseen, scratch)
        data = folder.object_of(release.node)
        folder.write_best(data, open_listing(data).to_assembly())
        summary = _summarise(folder, bundles, ended, search.refusals, release)
        folder.write_summary(summary)
    return summary


def _vary(
    bundles: BundleSet, limit: int, open_replayer: ReplayerFactory, scratch: Path
) -> Iterator[tuple[str, Replayer]]:
    """Variations of the bundles on which K0 still works, by name."""
    for path in bundles.paths if limit else ():
        for variant in write_variants(path, scratch, limit=limit):
            try:
                replayer = open_replayer(variant.path)
                is_usable = replayer.k0.verdict.has_passed
            except ReplayError:
                continue
            if is_usable:
                yield f"{path} with {variant.changes}", replayer


def _summarise(
    folder: RunFolder,
    bundles: BundleSet,
    ended: str,
    refusals: dict[str, str],
    release: Release,
) -> dict[str, Any]:
    root, best = folder.nodes[0], release.node
    speedup, _ = compare_costs(root.costs, best.costs)
    verdicts = Counter(attempt.verdict.status for attempt in folder.attempts.values())
    mutators = Counter(attempt.mutator for attempt in folder.attempts.values())
    is_modelled = root.costs[0].unit is CostUnit.MODELLED_CYCLES
    totals = {
        f"{name}_modelled_cycles": round(sum(cost.value for cost in node.costs))
        for name, node in (("k0", root), ("best", best))
    }
    return {
        "kernel": bundles.kernel,
        "arch": bundles.arch,
        "device": folder.identity.device,
        "k0_sha256": root.sha256,
        "best_sha256": best.sha256,
        "has_improved": best.sha256 != root.sha256,
        "cost_unit": root.costs[0].unit.value,
        "bundles": [
            {"path": str(path), "k0": before.value, "best": after.value}
            for path, before, after in zip(bundles.paths, root.costs, best.costs, strict=True)
        ],
        "speedup": speedup,
        **(totals if is_modelled else {}),
        "attempts": sum(verdicts.values()),
        "verdicts": {status.value: verdicts[status] for status in Status if verdicts[status]},
        "attempts_by_mutator": dict(sorted(mutators.items())),
        "committed": [node.mutator for node in folder.nodes[1:]],
        "held_out": release.to_json(),
        "refusals": refusals,
        "ended": ended,
    }
