"""Candidates that passed on a bundle, held to variations of it on which K0 still works."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from asmevo.errors import ReplayError
from asmevo.replay.records import ObjectResult, VariantOutcome
from asmevo.replay.region_types import TypeHints
from asmevo.replay.variation import Variant, write_variants
from asmevo.verdict import Verdict

if TYPE_CHECKING:
    from asmevo.replay.engine import ReplaySession

__all__ = ["UsableVariant", "judge_on_variants", "open_variants"]

OpenSession = Callable[[Path], "ReplaySession"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsableVariant:
    """A variation, and a session on it whose K0 passed; None with the reason where it did not."""

    changes: str
    session: ReplaySession | None
    reason: str = ""


@contextmanager
def open_variants(
    bundle: Path, open_session: OpenSession, *, limit: int, types: TypeHints | None = None
) -> Iterator[Iterator[UsableVariant]]:
    """Variations of a bundle, each tried with K0 when it is asked for; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="asmevo-variants-") as folder:
        variants = write_variants(bundle, Path(folder), limit=limit, hints=types)
        sessions: list[ReplaySession] = []
        try:
            yield (_try(variant, open_session, sessions) for variant in variants)
        finally:
            for session in sessions:
                session.close()


def _try(
    variant: Variant, open_session: OpenSession, sessions: list[ReplaySession]
) -> UsableVariant:
    try:
        session = open_session(variant.path)
        sessions.append(session)
        verdict = session.k0.verdict
    except ReplayError as error:
        return UsableVariant(changes=variant.changes, session=None, reason=str(error))
    if not verdict.has_passed:
        reason = f"K0 is {verdict.status}: {verdict.reasons[0] if verdict.reasons else ''}"
        session.close()
        return UsableVariant(changes=variant.changes, session=None, reason=reason)
    return UsableVariant(changes=variant.changes, session=session)


def judge_on_variants(
    results: Sequence[tuple[Path, ObjectResult]],
    variants: Iterator[UsableVariant],
    *,
    changes_arithmetic: bool,
) -> tuple[tuple[ObjectResult, ...], tuple[VariantOutcome, ...]]:
    """The results, rejected where a candidate that passed fails on a variation; what was tried."""
    judged = dict(enumerate(results))
    outcomes = []
    for variant in variants:
        outcomes.append(
            VariantOutcome(
                changes=variant.changes, is_used=variant.session is not None, reason=variant.reason
            )
        )
        if variant.session is None:
            continue
        for index, (path, result) in judged.items():
            if result.verdict.has_passed:
                found = variant.session.run(path, changes_arithmetic=changes_arithmetic)
                judged[index] = path, _held_to(result, found, variant.changes)
        variant.session.close()
    return tuple(result for _, result in judged.values()), tuple(outcomes)


def _held_to(result: ObjectResult, found: ObjectResult, changes: str) -> ObjectResult:
    if found.verdict.has_passed:
        return result
    reasons = tuple(f"with {changes}: {reason}" for reason in found.verdict.reasons)
    verdict = Verdict(status=found.verdict.status, reasons=reasons or (f"with {changes}",))
    return replace(result, verdict=verdict)
