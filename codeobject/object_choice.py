"""One code object of a file that may hold many, by processor, kernel or number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from asmevo.codeobject.code_object import CodeObject
from asmevo.codeobject.containers import FoundObject, find_code_objects
from asmevo.codeobject.target import parse_target_id
from asmevo.errors import CodeObjectError, UsageError

__all__ = ["ObjectChoice", "choose_object"]

_MAX_SHOWN: Final = 24
_PLACE_TARGET = re.compile(r"--(gfx[0-9a-f]{3,4}(?::(?:xnack|sramecc)[+-])*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChoice:
    """What is wanted; empty fields take any."""

    arch: str = ""
    """Processor or target id; features that it does not name may be any."""
    kernel: str = ""
    index: int | None = None
    """Number in the file, from 0."""

    def takes(self, number: int, found: FoundObject) -> bool:
        """True for an object that is as wanted."""
        if self.index is not None and number != self.index:
            return False
        if self.arch and not self._takes_arch(_target_of(found)):
            return False
        return not self.kernel or self.kernel in _kernels_of(found)

    def _takes_arch(self, target: str) -> bool:
        wanted, theirs = self.arch.split(":"), target.split(":")
        return wanted[0] == theirs[0] and set(wanted[1:]) <= set(theirs[1:])


def choose_object(path: Path, choice: ObjectChoice) -> FoundObject:
    """The one object of a code object file, bundle or host library that is as wanted.

    Raises:
        UsageError: None is, or several are; the hint names them.
        CodeObjectError: The file cannot be taken apart.
    """
    if choice.arch:
        parse_target_id(choice.arch)
    chosen: FoundObject | None = None
    taken: list[str] = []
    others: list[str] = []
    for number, found in enumerate(find_code_objects(path)):
        name = f"{number}: {_target_of(found) or 'unknown'}"
        if choice.takes(number, found):
            chosen = chosen or found
            taken.append(name)
        else:
            others.append(name)
    if len(taken) > 1:
        raise UsageError(
            f"{path}: {len(taken)} code objects; name one by --index, --arch or --kernel",
            hint=_shorten(taken),
        )
    if chosen is None:
        raise UsageError(f"{path}: no such code object in it", hint=f"it has {_shorten(others)}")
    return chosen


def _target_of(found: FoundObject) -> str:
    if named := _PLACE_TARGET.search(found.place):
        return named[1]
    try:
        return CodeObject.read(found.data).target_id
    except CodeObjectError:
        return ""


def _kernels_of(found: FoundObject) -> frozenset[str]:
    try:
        return frozenset(one.name for one in CodeObject.read(found.data).kernels)
    except CodeObjectError:
        return frozenset()


def _shorten(names: list[str]) -> str:
    more = f", and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return ", ".join(names[:_MAX_SHOWN]) + more
