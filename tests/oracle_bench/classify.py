"""Classifies mutants by what they do, before the oracle sees them. Shares no code with it."""

from __future__ import annotations

import pickle
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from asmevo import native
from asmevo.capture.bundle import Moment, open_bundle

__all__ = ["Behaviour", "Classifier"]

_TIME_LIMIT_S = 60.0
_RED_ZONE = 8192
_USUAL = {"reverse_waves": "0", "seed": "0", "fill": "0"}
_OTHER_FILLS = (0x3F800000, 0xFFFFFFFF, 1)
_SEEDS = (101, 102, 103, 104, 105, 106)


class Behaviour(StrEnum):
    """The first way in which a mutant differs from K0; `SAME` where none was seen."""

    FAULT = "faults or hangs"
    VALUE = "wrong values"
    OUTSIDE = "writes outside"
    UNWRITTEN = "depends on unwritten state"
    ORDER = "wrong in some order of waves or latencies"
    SIZE = "wrong for other sizes"
    SAME = "no difference seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    request: dict[str, Any]
    expected: list[bytes]
    varying: frozenset[int]
    """Buffers that K0 itself leaves different in other orders."""


class _LaunchFailedError(Exception):
    pass


class Classifier:
    """One kernel: its captured case, and cases of other sizes. Use it as a context manager."""

    def __init__(self, captured: Path, held_out: tuple[Path, ...]) -> None:
        """Run K0 on all cases."""
        self._child: subprocess.Popen[bytes] | None = None
        self._captured = self._make_case(captured)
        self._others = [self._make_case(path) for path in held_out]

    def __enter__(self) -> Classifier:
        """Return the classifier."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the child."""
        self._end_child()

    def classify(self, code_object: bytes) -> Behaviour:
        """Run a mutant on everything until it differs."""
        try:
            found = self._find(self._captured, code_object, _USUAL)
            if found is not None:
                return found
            for options, behaviour in _circumstances():
                if self._find(self._captured, code_object, options) is not None:
                    return behaviour
            for case in self._others:
                for options in (_USUAL, _USUAL | {"reverse_waves": "1"}):
                    if self._find(case, code_object, options) is not None:
                        return Behaviour.SIZE
        except _LaunchFailedError:
            return Behaviour.FAULT
        return Behaviour.SAME

    def _find(self, case: _Case, code_object: bytes, options: dict[str, str]) -> Behaviour | None:
        """How a launch differs from K0's usual one."""
        request = case.request | {"code_object": code_object, "options": options}
        results = self._run(request)
        is_usual = options == _USUAL
        found = None
        for index, (actual, expected) in enumerate(zip(results, case.expected, strict=True)):
            own, k0 = _parts(actual), _parts(expected)
            if own[0] != k0[0] and (is_usual or index not in case.varying):
                return Behaviour.VALUE
            if own[1] != k0[1]:
                found = Behaviour.OUTSIDE
        return found

    def _make_case(self, path: Path) -> _Case:
        with open_bundle(path) as bundle:
            dispatch = bundle.manifest.dispatch
            regions = bundle.manifest.regions
            request = {
                "kernel": dispatch.kernel,
                "grid": dispatch.grid,
                "block": dispatch.block,
                "dynamic_lds": dispatch.dynamic_lds_bytes,
                "kernarg": bundle.kernarg(),
                "code_object": bundle.code_object(),
                "options": _USUAL,
                "buffers": [bundle.region_bytes(one, Moment.BEFORE) for one in regions],
                "pointers": [
                    (pointer.kernarg_offset, index, pointer.region_offset)
                    for index, region in enumerate(regions)
                    for pointer in region.pointers
                ],
            }
        expected = self._run(request)
        varying = set()
        for options, _ in _circumstances():
            results = self._run(request | {"options": options})
            pairs = enumerate(zip(results, expected, strict=True))
            varying |= {index for index, (one, other) in pairs if one != other}
        return _Case(request=request, expected=expected, varying=frozenset(varying))

    def _run(self, request: dict[str, Any]) -> list[bytes]:
        if self._child is None:
            self._child = subprocess.Popen(
                [
                    sys.executable,
                    str(Path(__file__).with_name("behaviour.py")),
                    str(native.emulator_library()),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        pickle.dump(request, self._child.stdin)
        self._child.stdin.flush()
        if not select.select([self._child.stdout], [], [], _TIME_LIMIT_S)[0]:
            self._end_child()
            raise _LaunchFailedError
        try:
            status, answer = pickle.load(self._child.stdout)
        except EOFError:
            status, answer = "failed", []
        if status != "ok":
            self._end_child()
            raise _LaunchFailedError
        return list(answer)

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None


def _circumstances() -> Iterator[tuple[dict[str, str], Behaviour]]:
    for fill in _OTHER_FILLS:
        yield _USUAL | {"fill": str(fill)}, Behaviour.UNWRITTEN
    yield _USUAL | {"reverse_waves": "1"}, Behaviour.ORDER
    for seed in _SEEDS:
        yield _USUAL | {"seed": str(seed)}, Behaviour.ORDER


def _parts(content: bytes) -> tuple[bytes, bytes]:
    """The buffer itself, and the red zones around it."""
    return content[_RED_ZONE:-_RED_ZONE], content[:_RED_ZONE] + content[-_RED_ZONE:]
