"""Starts a program with the interposer preloaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from asmevo.child import become, find_program
from asmevo.errors import MissingToolError, UsageError
from asmevo.native import shim_library
from asmevo.shim.swap_manifest import read_manifest

__all__ = ["exec_with_shim", "shim_environment"]


def shim_environment(
    folder: Path, environment: Mapping[str, str], *, log: Path | None = None
) -> dict[str, str]:
    """A copy of `environment` that preloads the interposer before what is preloaded already.

    Raises:
        MissingToolError: the interposer is missing, or lies where LD_PRELOAD cannot name it.
    """
    library = str(shim_library())
    if set(library) & {" ", ":"}:
        raise MissingToolError(
            f"LD_PRELOAD cannot name {library}: it divides paths at blanks and colons",
            hint="install asmevo in a folder without them",
        )
    preload = [library, *environment.get("LD_PRELOAD", "").replace(":", " ").split()]
    changed = dict(environment)
    changed["LD_PRELOAD"] = ":".join(dict.fromkeys(preload))
    changed["ASMEVO_SWAP_DIR"] = str(folder.resolve())
    if log is not None:
        changed["ASMEVO_SWAP_LOG"] = str(log.absolute())
    return changed


def exec_with_shim(folder: Path, command: Sequence[str], *, log: Path | None = None) -> NoReturn:
    """Replace this process by `command` under the interposer.

    A damaged manifest is only warned about: the program then runs its own code objects, as it does
    for every other doubt.

    Raises:
        UsageError: There is no such folder, no such program, or the log cannot be written.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="asmevo swap pack makes one")
    if log is not None and not log.absolute().parent.is_dir():
        raise UsageError(f"no folder {log.absolute().parent} for the swap log")
    find_program(command[0])
    try:
        read_manifest(folder)
    except UsageError as error:
        print(f"asmevo: warning: nothing will be swapped: {error}", file=sys.stderr)
    become(command, shim_environment(folder, os.environ, log=log))
